// Runs the kernels that nvcc emitted as PTX text, on the CPU, and checks every step.
//
// This is the whole interface of tests/cudasim/ptx: parse() decodes a module once, run() executes
// one launch against a Memory and returns what it objects to. The simulated runtime implements
// Memory for its devices; HostMemory (host_memory.h) is a small one for tests. Nothing here needs
// CUDA headers. Next: parser.cpp (text to instructions), block.cpp (how threads take turns),
// access_log.h (races).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cudasim::ptx {

enum class Check {
  OutOfBounds,    // global or shared address that the launch must not touch (real hardware: error
                  // 700)
  Misaligned,     // address that is not a multiple of the access size (real hardware: error 716)
  Uninitialised,  // read of bytes nobody has written
  Race,           // two threads touch a byte, one writes, no barrier between them
  Barrier,        // __syncthreads() that not all threads of the block reach at the same place
  WarpMask,       // shuffle or vote whose mask does not fit the lanes that take part
  Deadlock,       // threads that wait for each other, or never end
  Trap,           // the kernel stopped itself
  Unsupported,    // an instruction that the interpreter does not know
};

// One objection. Each instruction is reported once per kind; `count` says how often it happened.
struct Finding {
  Check check;
  std::string kernel;   // name as in the PTX (mangled for C++ kernels)
  std::string what;     // one sentence: what, where in the grid, which instruction
  int line = 0;         // line in the PTX text
  int source_line = 0;  // line in the .cu file, 0 unless compiled with -lineinfo
  std::uint64_t count = 1;

  // A real device would have stopped the kernel here, and so has run().
  bool fatal() const { return check != Check::Uninitialised && check != Check::Race; }
};

std::string to_string(const Finding&);

// One allocation of device memory. Its bytes need not lie at its address, so that nobody but the
// interpreter can reach them.
struct Region {
  std::uint64_t address = 0;
  std::size_t size = 0;
  std::byte* bytes = nullptr;
  bool writable = true;
  std::uint8_t* initialised =
      nullptr;  // one flag per byte, 0 or 1; nullptr: everything counts as written
};

// The device memory that a launch may touch. run() calls it from the thread that runs the launch.
class Memory {
 public:
  virtual ~Memory() = default;

  // The allocation that holds all of [address, address + size), or nullptr and the reason in words,
  // such as "outside any allocation", "freed buffer", "memory of device 1 without peer access". A
  // region must stay where it is until the launch ends: the interpreter remembers it.
  virtual const Region* find(std::uint64_t address, std::size_t size, std::string& reason) = 0;

  // Every plain access that passed the checks, for a race detector between kernels, copies and the
  // host; told only to a memory that listens.
  virtual bool listens() const { return false; }
  virtual void note_read(std::uint64_t /*address*/, std::size_t /*size*/) {}
  virtual void note_write(std::uint64_t /*address*/, std::size_t /*size*/) {}
  virtual void note_atomic(std::uint64_t /*address*/, std::size_t /*size*/) {}
};

struct Parameter {
  std::string name;
  std::size_t offset = 0;  // in the parameter bytes of a launch
  std::size_t size = 0;
};

struct Program;  // decoded instructions, see program.h

// A decoded kernel: a cheap handle that can be shared between threads.
class Kernel {
 public:
  explicit Kernel(std::shared_ptr<const Program> program);

  const std::string& name() const;
  std::span<const Parameter> parameters() const;  // in the order of the kernel's arguments
  std::size_t parameter_bytes() const;
  std::size_t static_shared_bytes() const;
  const Program& program() const { return *program_; }

 private:
  std::shared_ptr<const Program> program_;
};

struct Module {
  std::vector<Kernel> kernels;
  std::string target;  // "sm_90"

  const Kernel* find(std::string_view name) const;  // nullptr if there is none of that name
};

struct ParseError : std::runtime_error {
  using runtime_error::runtime_error;
};

// Throws ParseError for text that is not PTX. Unknown instructions are no error here: a finding
// says so when one is reached.
Module parse(std::string_view ptx_text);

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

struct Launch {
  Dim3 grid, block;
  std::size_t dynamic_shared = 0;
  std::span<const std::byte> parameters;            // laid out as Kernel::parameters() says
  std::uint64_t instruction_limit = 4'000'000'000;  // more is taken for an endless loop
};

// Runs every block of the launch, one after the other, and returns the findings (none: all is
// well). Stops at the first fatal one. Writes the number of executed instructions to *executed if
// given.
std::vector<Finding> run(const Kernel&, const Launch&, Memory&, std::uint64_t* executed = nullptr);

}  // namespace cudasim::ptx
