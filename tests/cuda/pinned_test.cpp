// Pinned memory, and copies from it that the host does not wait for. Every case runs on each
// topology of CMakeLists.txt.
#include <doctest/doctest.h>

#include "streams.h"

#include <tandem/core/backend.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/stream.h>
#include <tandem/core/tensor.h>
#include <tandem/data/loader.h>

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor on_cpu(const std::vector<float>& values) {
  return Tensor(on(cpu(0), values));
}

// Calls in which a host waits for a GPU, or takes a buffer for a copy.
int waits() {
  int n = 0;
  for (const char* f : {"cudaStreamSynchronize", "cudaEventSynchronize", "cudaHostAlloc"}) {
    n += cudasim::calls(f);
  }
  return n;
}

}  // namespace

TEST_CASE("copies: pin_memory is a copy in pinned memory, which is a CPU's like any other") {
  const Tensor x = on_cpu(numbers(600));
  const Tensor pinned = x.pin_memory();
  CHECK(!x.is_pinned());
  CHECK(pinned.is_pinned());
  CHECK(pinned.device() == cpu(0));
  CHECK(pinned.to_vector<float>() == numbers(600));
  CHECK(pinned.pin_memory().is_same(pinned));
  CHECK(pinned.view({20, 30}).narrow(0, 3, 2).is_pinned());
  CHECK(!(pinned + pinned).is_pinned());
  CHECK((pinned + pinned).to_vector<float>()[7] == 14);
  CHECK(!pinned.to(cuda(0)).is_pinned());
  CHECK(on_cpu({}).pin_memory().to(cuda(0), {.non_blocking = true}).numel() == 0);
  CHECK(throws<UsageError>([&] { x.to(cuda(0)).pin_memory(); }, {"pin_memory", "cuda:0"}));
}

TEST_CASE("copies: the host does not wait for a copy from pinned memory that need not block it") {
  const Tensor x = on_cpu(numbers(3000000)).pin_memory();  // more than all staging buffers hold
  zeros({1}, {.device = cuda(0)}).to_vector<float>();
  x.narrow(0, 0, 10).to(cuda(0), {.non_blocking = true}).to_vector<float>();
  const int before = waits();
  const Tensor y = x.to(cuda(0), {.non_blocking = true});
  CHECK(waits() == before);
  CHECK(y.to_vector<float>() == numbers(3000000));
}

TEST_CASE("copies: pinned memory that dies at once is read before it is used again") {
  for (int i = 0; i < 3; ++i) {
    const Tensor y =
        on_cpu(numbers(5000, float(i))).pin_memory().to(cuda(0), {.non_blocking = true});
    const Tensor next = on_cpu(numbers(5000, 50)).pin_memory();
    CHECK(y.to_vector<float>() == numbers(5000, float(i)));
    CHECK(next.to_vector<float>() == numbers(5000, 50));
  }
}

TEST_CASE("copies: pinned memory is used again once its copies have run") {
  const void* first = nullptr;
  Tensor y;
  {
    const Tensor x = on_cpu(numbers(70000)).pin_memory();
    first = x.array().data();
    y = x.to(cuda(0), {.non_blocking = true});
  }
  CHECK(y.to_vector<float>() == numbers(70000));
  CHECK(on_cpu(numbers(70000)).pin_memory().array().data() == first);
}

TEST_CASE(
    "copies: a copy that blocks, or from other memory, lets its source be overwritten at once") {
  Tensor pinned = on_cpu(numbers(5000, 1)).pin_memory(), plain = on_cpu(numbers(5000, 2));
  const Tensor a = pinned.to(cuda(0));
  const Tensor b = plain.to(cuda(0), {.non_blocking = true});
  pinned.fill_(7), plain.fill_(7);
  CHECK(a.to_vector<float>() == numbers(5000, 1));
  CHECK(b.to_vector<float>() == numbers(5000, 2));
}

TEST_CASE(
    "copies: what is not dense arrives without blocking, and copies to the CPU are complete") {
  const Tensor x = on_cpu(numbers(600)).pin_memory().view({20, 30});
  const Tensor columns = x.narrow(1, 4, 2);
  const Tensor y = columns.to(cuda(0), {.non_blocking = true});
  CHECK(y.to_vector<float>() == columns.to_vector<float>());
  const Tensor back = y.to(cpu(0), {.non_blocking = true});
  CHECK(back.to_vector<float>() == columns.to_vector<float>());
  CHECK(x.t().to(cuda(0), {.non_blocking = true}).to_vector<float>() == x.t().to_vector<float>());
  CHECK(x.to(cpu(1), {.non_blocking = true}).to_vector<float>() == numbers(600));
}

TEST_CASE("copies: a copy from pinned memory goes onto a guard's stream") {
  const UserStream user(cuda(0));
  Tensor y;
  {
    const StreamGuard guard(cuda(0), user.handle);
    y = on_cpu(numbers(4000, 3)).pin_memory().to(cuda(0), {.non_blocking = true});
  }
  const Tensor next = on_cpu(numbers(4000, 9)).pin_memory();
  CHECK(y.to_vector<float>() == numbers(4000, 3));
}

TEST_CASE("copies: gradients go back through pinned memory") {
  Tensor x = on_cpu(numbers(10));
  x.requires_grad_();
  sum(x.pin_memory().to(cuda(0), {.non_blocking = true}) * 3).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>(10, 3));
  CHECK(!x.grad().is_pinned());
}

TEST_CASE("copies: a loader pins its batches if asked to") {
  data::DataLoader loader({on_cpu(numbers(10)).view({5, 2}), on_cpu(numbers(5))},
                          {.batch_size = 2, .pin_memory = true});
  float row = 0;
  for (auto&& [x, y] : loader) {
    CHECK(x.is_pinned());
    CHECK(y.is_pinned());
    const Tensor there = x.to(cuda(0), {.non_blocking = true});
    CHECK(there.to_vector<float>()[0] == row);
    row += 4;
  }
  CHECK(row == 12);
}

TEST_CASE("copies: pinned memory whose copy could not be noted has been read") {
  const Tensor x = on_cpu(numbers(5000, 4)).pin_memory();
  zeros({1}, {.device = cuda(0)}).to_vector<float>();
  Tensor y = x.to(cuda(0), {.non_blocking = true});
  cudasim::fail_call("cudaEventRecord", 1, cudaErrorUnknown);
  CHECK(throws<DeviceError>([&] { x.to(cuda(0), {.non_blocking = true}); }, {"cudaEventRecord"}));
  CHECK(y.to_vector<float>() == numbers(5000, 4));
}
