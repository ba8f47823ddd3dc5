// Talking to ThreadSanitizer. The simulator is compiled without -fsanitize=thread even when the
// program under test has it: its own locks must neither be reported nor order the program's
// accesses, because the mutex of a queue would hide exactly the missing waits we look for. Only
// CUDA's real edges are declared, one by one, with release() and acquire().
//
// All of it is looked up weakly, so one build of the simulator serves both kinds of program.
#pragma once

#include <cstddef>

namespace cudasim {

// The simulator's own work: no reports, and no ordering learnt from its locks.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

// The program's work, done on its behalf inside a Quiet region: seen by ThreadSanitizer again.
class Loud {
 public:
  Loud();
  ~Loud();
  Loud(const Loud&) = delete;
  Loud& operator=(const Loud&) = delete;

 private:
  int depth_;
};

// One side of a happens-before edge. A token is an address that is never used for anything else,
// or a recycled one would join unrelated events and hide races.
class Token {
 public:
  Token();
  void release() const;  // what this thread has done so far ...
  void acquire() const;  // ... is visible to a thread that acquires later

 private:
  void* address_;
};

void note_read(const void* address, std::size_t size);
void note_write(void* address, std::size_t size);
bool under_thread_sanitizer();
void forget_data_races();

}  // namespace cudasim
