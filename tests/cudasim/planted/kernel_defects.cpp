// Planted defects in kernels: each must be caught and named, its clean twin must pass without a
// word. Runs on the interpreter alone, for the PTX of three architectures.
#include "kernels/test_support.h"

using namespace cudasim::ptx;

namespace {

// One of the findings must be of this kind and say this; the clean twin must have none.
struct Expected {
  Check check;
  const char* what;
};

std::string verdict(const std::vector<Finding>& findings, const Expected& expected) {
  for (const Finding& f : findings) {
    const bool located = f.line > 0 && f.source_line > 0;
    const bool named = f.what.find(expected.what) != std::string::npos;
    if (f.check == expected.check && named && located) return "";
  }
  return findings.empty() ? "not caught" : "caught as something else: " + to_string(findings);
}

// Fresh buffers for every run: no twin inherits anything.
struct Buffers : PtxDevice {
  explicit Buffers(const char* architecture) : PtxDevice("kernel_defects", architecture) {}
  const float* x = upload(random_floats(256, 1));
  float* y = empty<float>(256);
};

}  // namespace

// PLANTED_KERNEL(title, check, words, launch): `launch` may use device, x, y and `defect`
#define PLANTED_KERNEL(title, check, words, ...)                          \
  TEST_CASE_TEMPLATE("planted kernel: " title, Arch, Sm75, Sm80, Sm90) {  \
    for (int defect : {1, 0}) {                                           \
      Buffers device(Arch::name);                                         \
      [[maybe_unused]] const float* x = device.x;                         \
      [[maybe_unused]] float* y = device.y;                               \
      const std::vector<Finding> findings = __VA_ARGS__;                  \
      if (defect) CHECK_EQ(verdict(findings, {Check::check, words}), ""); \
      if (!defect) CHECK_EQ(to_string(findings), "");                     \
    }                                                                     \
  }

// ---- order

PLANTED_KERNEL("a barrier is missing between the levels of a tree", Race,
               "shared memory race with another thread",
               device.launch("missing_barrier", {1}, {128}, 0, x, y, defect))

PLANTED_KERNEL("a barrier is missing before shared memory is used again", Race,
               "shared memory race with another thread",
               device.launch("missing_second_barrier", {1}, {128}, 0, x, y, defect))

PLANTED_KERNEL("a __syncwarp is missing between the lanes of a warp", Race,
               "shared memory race with another thread",
               device.launch("missing_warp_sync", {1}, {32}, 0, x, y, defect))

PLANTED_KERNEL("blocks add to one number without an atomic", Race,
               "global memory race with another block",
               device.launch("block_race", {8}, {1}, 0, x, device.upload(std::vector<float>{0}),
                             defect))

PLANTED_KERNEL("two threads write the same element", Race, "global memory race with another thread",
               device.launch("thread_race", {1}, {64}, 0, x, y, defect))

PLANTED_KERNEL("eight threads change bits of the same byte", Race,
               "global memory race with another thread",
               device.launch("byte_race", {1}, {64}, 0, x,
                             device.upload(std::vector<std::uint8_t>(8)), defect))

PLANTED_KERNEL("a grid-stride loop forgets the number of blocks", Race,
               "global memory race with another block",
               device.launch("wrong_stride", {2}, {64}, 0, x, y, std::size_t{256}, defect))

PLANTED_KERNEL("a counter is read without an atomic", Race, "global memory race with another",
               device.launch("plain_read_of_counter", {2}, {32}, 0,
                             device.upload(std::vector<int>{0}), device.empty<int>(64), defect))

// ---- addresses

PLANTED_KERNEL("a loop runs one element too far", OutOfBounds, "outside any allocation",
               device.launch("off_by_one", {2}, {200}, 0, y, std::size_t{256}, defect))

PLANTED_KERNEL("the tail of the last block is not checked", OutOfBounds, "global read of 4 bytes",
               device.launch("missing_tail_check", {2}, {200}, 0, x, y, std::size_t{256}, defect))

PLANTED_KERNEL("an index is negative", OutOfBounds, "outside any allocation",
               device.launch("negative_index", {1}, {64}, 0, x, y, defect))

PLANTED_KERNEL("shared memory is overrun", OutOfBounds,
               "shared memory out of bounds: byte 256 of 256",
               device.launch("shared_overrun", {1}, {64}, 0, x, y, defect))

PLANTED_KERNEL("a float4 starts at an odd float", Misaligned, "is no multiple of 16",
               device.launch("misaligned_vector", {1}, {16}, 0, x, y, defect))

PLANTED_KERNEL("the input has been freed", OutOfBounds, "freed buffer",
               (defect ? device.release(const_cast<float*>(x)) : void(),
                device.launch("copy", {1}, {64}, 0, x, y)))

PLANTED_KERNEL("the output belongs to another device", OutOfBounds,
               "memory of device 1 without peer access",
               device.launch("copy", {1}, {64}, 0, x,
                             defect ? static_cast<float*>(device.allocate_on_other_device(1024))
                                    : y))

PLANTED_KERNEL("the output is read-only", OutOfBounds, "read-only memory",
               (defect ? device.protect(y) : void(), device.launch("copy", {1}, {64}, 0, x, y)))

PLANTED_KERNEL("a pointer is null", OutOfBounds, "at 0x0: outside any allocation",
               device.launch("copy", {1}, {64}, 0, defect ? nullptr : x, y))

PLANTED_KERNEL("a buffer is shorter than the launch", OutOfBounds, "outside any allocation",
               device.launch("copy", {1}, {64}, 0, x, device.empty<float>(defect ? 63 : 64)))

// ---- values

PLANTED_KERNEL("an accumulator was never set to zero", Uninitialised, "uninitialised global read",
               device.launch("uninitialised_global", {1}, {64}, 0, x, y, defect))

PLANTED_KERNEL("one element of shared memory was never written", Uninitialised,
               "uninitialised shared read",
               device.launch("uninitialised_shared", {1}, {64}, 0, x, y, defect))

// ---- warps and barriers

PLANTED_KERNEL("the branches of an if have a barrier each", Barrier, "divergent barrier",
               device.launch("divergent_barrier", {1}, {32}, 0, y, defect))

PLANTED_KERNEL("some threads return before a barrier", Barrier,
               "only 50 of 64 threads reach it, the others have ended",
               device.launch("return_before_barrier", {1}, {64}, 0, x, y, std::size_t{50}, defect))

PLANTED_KERNEL("a shuffle's mask names lanes outside of the branch", WarpMask, "waits elsewhere",
               device.launch("mask_names_absent_lanes", {1}, {32}, 0, x, y, defect))

PLANTED_KERNEL("a lane is missing from its own mask", WarpMask, "not in its own mask 0xffff",
               device.launch("mask_without_caller", {1}, {32}, 0, x, y, defect))

PLANTED_KERNEL("a shuffle reads a lane that the block does not have", WarpMask,
               "which takes no part",
               device.launch("shuffle_from_missing_lane", {1}, {48}, 0, x, y, defect))

PLANTED_KERNEL("a block waits for a later one", Deadlock, "endless loop",
               (device.limit_instructions(100'000),
                device.launch("waits_for_other_block", {2}, {1}, 0,
                              device.upload(std::vector<int>{0}), defect)))

PLANTED_KERNEL("the kernel traps", Trap, "the kernel stops itself",
               device.launch("traps", {1}, {1}, 0, defect))
