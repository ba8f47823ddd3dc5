#include "ptx/host_memory.h"

#include <stdexcept>

namespace cudasim::ptx {
namespace {

constexpr std::size_t kAlign = 256;

}  // namespace

void* HostMemory::allocate(std::size_t bytes) {
  auto buffer = std::make_unique<Buffer>();
  buffer->bytes = std::make_unique<std::byte[]>(bytes + kAlign);
  buffer->written = std::make_unique<std::uint8_t[]>(bytes + 1);
  const auto start = reinterpret_cast<std::uint64_t>(buffer->bytes.get());
  buffer->region.address = (start + kAlign - 1) / kAlign * kAlign;
  buffer->region.size = bytes;
  buffer->region.bytes = reinterpret_cast<std::byte*>(buffer->region.address);
  buffer->region.initialised = buffer->written.get();
  auto* address = reinterpret_cast<void*>(buffer->region.address);
  std::memset(address, 0xFF, bytes);
  buffers_.push_back(std::move(buffer));
  return address;
}

void HostMemory::release(void* buffer) {
  buffer_at(buffer).closed = "freed buffer";
}

void* HostMemory::allocate_on_other_device(std::size_t bytes) {
  void* address = allocate(bytes);
  mark_written(address);
  buffer_at(address).closed = "memory of device 1 without peer access";
  return address;
}

void HostMemory::protect(void* buffer) {
  buffer_at(buffer).region.writable = false;
}

void HostMemory::mark_written(void* buffer) {
  Buffer& b = buffer_at(buffer);
  std::memset(b.written.get(), 1, b.region.size);
}

HostMemory::Buffer& HostMemory::buffer_at(const void* address) {
  for (const auto& buffer : buffers_) {
    if (buffer->region.address == reinterpret_cast<std::uint64_t>(address)) return *buffer;
  }
  throw std::logic_error("HostMemory: not a buffer");
}

const Region* HostMemory::find(std::uint64_t address, std::size_t size, std::string& reason) {
  for (const auto& buffer : buffers_) {
    const Region& r = buffer->region;
    if (address < r.address || address >= r.address + r.size) continue;
    if (!buffer->closed.empty()) {
      reason = buffer->closed;
    } else if (address + size > r.address + r.size) {
      reason = "reaches past the end of an allocation of " + std::to_string(r.size) + " bytes";
    } else {
      return &r;
    }
    return nullptr;
  }
  reason = "outside any allocation";
  return nullptr;
}

}  // namespace cudasim::ptx
