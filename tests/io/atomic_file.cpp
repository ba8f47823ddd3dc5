// Files are there whole or not at all, whoever dies when.
#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>

#include <tandem/core/error.h>
#include <tandem/io/atomic_file.h>

#include "tests/support/check.h"
#include "tests/support/temporary_file.h"

using namespace tandem;
using namespace tandem::test;
using tandem::io::AtomicFile;

namespace {

void write(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace

TEST_CASE("AtomicFile: commit makes the file or replaces it, and leaves nothing else") {
  const TemporaryFolder folder;
  write(folder.file("x"), "old text");
  CHECK(file_bytes(folder.file("x")) == "old text");
  write(folder.file("x"), "new");
  CHECK(file_bytes(folder.file("x")) == "new");
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: without commit the old file stays and the temporary one goes") {
  const TemporaryFolder folder;
  folder.add("x", "old");
  {
    AtomicFile file(folder.file("x"));
    file.write("new", 3);
    CHECK(folder.size() == 2);
  }
  CHECK(file_bytes(folder.file("x")) == "old");
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: a process killed between write and rename leaves the old file") {
  const TemporaryFolder folder;
  folder.add("x", "old");
  const std::string end = in_child([&]() -> std::string {
    AtomicFile file(folder.file("x"));
    file.write("new", 3);
    std::raise(SIGKILL);
    return "still alive";
  });
  CHECK(end.starts_with("died:"));
  CHECK(file_bytes(folder.file("x")) == "old");
  write(folder.file("x"), "newer");  // what the dead one left behind is in nobody's way
  CHECK(file_bytes(folder.file("x")) == "newer");
}

TEST_CASE("AtomicFile: when the disk is full the old file stays and the temporary one goes") {
  const TemporaryFolder folder;
  folder.add("x", "old");
  const std::string message = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};  // bytes a file may have, as on a disk with no more room
    setrlimit(RLIMIT_FSIZE, &limit);
    return thrown_message<Error>([&] { write(folder.file("x"), std::string(2000, 'n')); });
  });
  CHECK(contains(message, "[save] cannot write"));
  CHECK(contains(message, "x' is as it was"));
  CHECK(file_bytes(folder.file("x")) == "old");
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: two writers of one path do not meet; the last commit stays") {
  const TemporaryFolder folder;
  AtomicFile a(folder.file("x")), b(folder.file("x"));
  a.write("aaa", 3);
  b.write("b", 1);
  a.commit();
  CHECK(file_bytes(folder.file("x")) == "aaa");
  b.commit();
  CHECK(file_bytes(folder.file("x")) == "b");
}

TEST_CASE("AtomicFile: a symbolic link stays one, and its target gets the bytes") {
  const TemporaryFolder folder;
  folder.add("run/1", "old");
  std::filesystem::create_symlink("run/1", folder.file("latest"));
  write(folder.file("latest"), "new");
  CHECK(std::filesystem::is_symlink(folder.file("latest")));
  CHECK(file_bytes(folder.file("run/1")) == "new");
}

TEST_CASE("AtomicFile: a symbolic link to a file that is not there yet stays one") {
  const TemporaryFolder folder;
  folder.add("run/1", "old");
  std::filesystem::create_symlink("run/2", folder.file("newest"));
  std::filesystem::create_symlink("newest", folder.file("latest"));
  write(folder.file("latest"), "new");
  CHECK(std::filesystem::is_symlink(folder.file("newest")));
  CHECK(std::filesystem::is_symlink(folder.file("latest")));
  CHECK(file_bytes(folder.file("run/2")) == "new");
}

TEST_CASE("AtomicFile: no path, and links in a circle, are refused") {
  const TemporaryFolder folder;
  CHECK(throws<UsageError>([] { write("", "x"); }, {"[save]", "path is empty"}));
  std::filesystem::create_symlink("circle", folder.file("circle"));
  CHECK(throws<UsageError>([&] { write(folder.file("circle"), "x"); },
                           {"[save]", "circle", "symbolic links"}));
  CHECK(std::filesystem::is_symlink(folder.file("circle")));
}

TEST_CASE("AtomicFile: what is no file is refused and stays") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(throws<UsageError>([&] { write(pipe, "x"); }, {"[save]", "no regular file"}));
  CHECK(throws<UsageError>([&] { write(folder.path(), "x"); }, {"no regular file"}));
  CHECK(throws<UsageError>([&] { write(folder.file("nowhere/x"), "x"); },
                           {"[save] cannot make a file beside", "nowhere/x", "No such file"}));
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(folder.size() == 1);
}
