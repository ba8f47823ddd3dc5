// See edges.h. The functions named here are those of libtsan; without it they are null.
#include "runtime/edges.h"

#include "runtime/cudasim.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

extern "C" {
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
[[gnu::weak]] void __tsan_read_range(void* address, long size);
[[gnu::weak]] void __tsan_write_range(void* address, long size);
[[gnu::weak]] void AnnotateIgnoreSyncBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreSyncEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesEnd(const char* file, int line);
}

// Called by libtsan for every report. It lives here because a race seen in instrumented code would
// call it again, and wait for itself.
static std::atomic<int> reports{0};
extern "C" void __tsan_on_report(void*) {
  ++reports;
}

namespace cudasim {
namespace {

thread_local int quiet_depth = 0;

void begin_ignoring() {
  if (!under_thread_sanitizer()) return;
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

void end_ignoring() {
  if (!under_thread_sanitizer()) return;
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

constexpr std::size_t kTokenBytes = 8, kTokenSpace = std::size_t{256} << 20;

char* token_space() {
  static char* const space = [] {
    void* p = mmap(nullptr, kTokenSpace, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    return static_cast<char*>(p);
  }();
  return space;
}

// A workspace that two streams share is a race at every word of it, and a report takes
// milliseconds: after so many the rest is not looked at.
constexpr int kEnoughReports = 50;
constexpr std::size_t kPiece = 256;

void note(void (*range)(void*, long), void* address, std::size_t size) {
  if (!under_thread_sanitizer()) return;
  auto* p = static_cast<char*>(address);
  for (char* const end = p + size; p < end && reports < kEnoughReports; p += kPiece)
    range(p, static_cast<long>(std::min(kPiece, static_cast<std::size_t>(end - p))));
}

}  // namespace

bool under_thread_sanitizer() {
  return AnnotateIgnoreSyncBegin && __tsan_acquire;
}

Quiet::Quiet() {
  if (quiet_depth++ == 0) begin_ignoring();
}
Quiet::~Quiet() {
  if (--quiet_depth == 0) end_ignoring();
}

Loud::Loud() : depth_(quiet_depth) {
  if (depth_ > 0) end_ignoring();
  quiet_depth = 0;
}
Loud::~Loud() {
  quiet_depth = depth_;
  if (depth_ > 0) begin_ignoring();
}

Token::Token() {
  static std::atomic<std::size_t> next{0};
  if (!under_thread_sanitizer()) {
    address_ = nullptr;
    return;
  }
  Quiet quiet;
  const std::size_t offset = next.fetch_add(kTokenBytes, std::memory_order_relaxed);
  if (offset >= kTokenSpace) {
    std::fprintf(stderr, "cudasim: out of ThreadSanitizer tokens\n");
    std::abort();
  }
  address_ = token_space() + offset;
}

void Token::release() const {
  if (!address_) return;
  Loud loud;
  __tsan_release(address_);
}

void Token::acquire() const {
  if (!address_) return;
  Loud loud;
  __tsan_acquire(address_);
}

int data_races() {
  return reports;
}
void forget_data_races() {
  reports = 0;
}

void note_read(const void* address, std::size_t size) {
  note(__tsan_read_range, const_cast<void*>(address), size);
}
void note_write(void* address, std::size_t size) {
  note(__tsan_write_range, address, size);
}

}  // namespace cudasim
