// A small ptx::Memory for tests without the simulated runtime: buffers in host memory, with names.
// Not thread-safe.
#pragma once

#include "ptx/interpreter.h"

#include <cstring>
#include <memory>
#include <vector>

namespace cudasim::ptx {

class HostMemory : public Memory {
 public:
  // Bytes that nobody has written: 0xFF, which is NaN in every float type. Aligned to 256.
  void* allocate(std::size_t bytes);
  // The address stays known, so that a late access is named.
  void release(void* buffer);
  // An address of another device, which a launch here must not touch.
  void* allocate_on_other_device(std::size_t bytes);
  void protect(void* buffer);  // read only from now on

  template <class T>
  T* upload(const std::vector<T>& values) {
    void* buffer = allocate(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(buffer, values.data(), values.size() * sizeof(T));
    mark_written(buffer);
    return static_cast<T*>(buffer);
  }
  template <class T>
  T* empty(std::size_t count) {
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  template <class T>
  static std::vector<T> download(const T* buffer, std::size_t count) {
    return {buffer, buffer + count};
  }

  const Region* find(std::uint64_t address, std::size_t size, std::string& reason) override;

 private:
  struct Buffer {
    Region region;
    std::unique_ptr<std::byte[]> bytes;
    std::unique_ptr<std::uint8_t[]> written;
    std::string closed;  // why a launch must not touch it; empty: it may
  };
  Buffer& buffer_at(const void* address);
  void mark_written(void* buffer);

  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace cudasim::ptx
