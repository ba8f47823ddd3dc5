// A file with given bytes, for as long as the object lives.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace tandem::test {

class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, std::string_view bytes)
      : path_(std::filesystem::temp_directory_path() /
              ("tandem_" + std::to_string(getpid()) + "_" + name)) {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace tandem::test
