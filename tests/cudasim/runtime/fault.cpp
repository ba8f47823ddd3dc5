// Names the access when somebody touches memory that is closed: device memory read by the host,
// pinned memory after cudaFreeHost. catch_fault() turns it into a text for a test.
#include "runtime/state.h"

#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace cudasim {
namespace {

struct Catcher {
  sigjmp_buf back;
  char text[256];
};
thread_local Catcher* catcher = nullptr;

struct sigaction previous_handler;

enum class Fault { foreign, caught, fatal };

// The state is read without its lock: the thread that faulted may hold it, and nothing else can be
// done anyway.
Fault examine(const void* address) {
  const std::string place = describe(state(), address);
  if (place == "pageable host memory") return Fault::foreign;
  const std::string text = "host code touched " + place;
  if (catcher && this_thread().inside_api == 0) {
    std::strncpy(catcher->text, text.c_str(), sizeof catcher->text - 1);
    return Fault::caught;
  }
  const std::string line = "cudasim: " + text + "\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
  return Fault::fatal;
}

void on_fault(int signal, siginfo_t* info, void*) {
  // Out of the handler by a jump only here, where nothing is left to destroy.
  if (examine(info->si_addr) == Fault::caught) siglongjmp(catcher->back, 1);
  sigaction(signal, &previous_handler, nullptr);  // the access faults again, and ends the program
}

}  // namespace

void watch_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &previous_handler);
}

std::string catch_fault(const std::function<void()>& program) {
  state();
  watch_faults();  // again: a test framework may have put its own handler in front
  Catcher here{};
  Catcher* const outer = catcher;
  catcher = &here;
  if (sigsetjmp(here.back, 1) == 0) program();
  catcher = outer;
  return here.text;
}

}  // namespace cudasim
