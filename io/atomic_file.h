// AtomicFile: a file that appears whole or not at all.
//
//   AtomicFile file("model.safetensors");   // a temporary file in the same folder
//   file.write(bytes.data(), bytes.size());
//   file.commit();                          // fsync, rename to its name, fsync of the folder
//
// What happens before the rename, an exception, a kill or a power cut, leaves an older file of that
// name as it was. Used by safetensors.h.
#pragma once

#include <cstddef>
#include <string>

namespace tandem::io {

/// Used by one thread. Several programs may write the same path at once: each commit is whole.
class AtomicFile {
 public:
  /// Follows a symbolic link, so that the link stays one. Throws UsageError if no file can be made
  /// there, or if the path is something else than a file.
  explicit AtomicFile(const std::string& path);
  /// Removes the temporary file unless commit() came to its end. (A kill leaves it behind: its name
  /// contains ".tmp-".)
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws Error, also when the disk is full.
  void write(const void* data, std::size_t bytes);
  /// Gives the file its name. Afterwards only the destructor may be called. Throws Error.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_, temporary_;
  int descriptor_ = -1;
};

}  // namespace tandem::io
