#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <tandem/core/error.h>
#include <tandem/io/atomic_file.h>

namespace tandem::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as Linux follows

/// Where `path` leads if it is a symbolic link, even to nothing yet. Refuses what a rename must
/// never replace: a folder, a device such as /dev/null.
std::string resolved(const std::string& path) {
  check(!path.empty(), "[save] the path is empty");
  std::error_code error;
  fs::path target(path);
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    check(links < kMostLinks, "[save] cannot write '", path, "': too many symbolic links");
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  check(!error || error == std::errc::no_such_file_or_directory, "[save] cannot write '", path,
        "': ", error.message());
  const fs::file_status status = fs::status(target, error);
  check(!fs::exists(status) || fs::is_regular_file(status), "[save] '", path,
        "' exists and is no regular file");
  return target.string();
}

/// No two of these in one folder, whatever thread or process asks.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return str(path, ".tmp-", getpid(), "-", count++);
}

void close_quietly(int& descriptor) {
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

/// A rename is on the disk only when its folder is. Some file systems cannot sync a folder: then
/// there is nothing more to be done.
void sync_folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) ::fsync(descriptor);
  close_quietly(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path)
    : path_(resolved(path)), temporary_(temporary_name(path_)) {
  // O_EXCL: never write into a file that somebody else made.
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  check(descriptor_ >= 0, "[save] cannot make a file beside '", path, "': ", std::strerror(errno));
}

AtomicFile::~AtomicFile() {
  close_quietly(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const {
  throw Error(str("[save] cannot ", what, " '", temporary_, "': ", std::strerror(errno), ". '",
                  path_, "' is as it was"));
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    at += written;
    bytes -= std::size_t(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("flush");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
  temporary_.clear();
  sync_folder_of(path_);
}

}  // namespace tandem::io
