// The CUDA backend as a device, on the simulator: memory, copies, order.
#include <doctest/doctest.h>

#include "runtime/cudasim.h"
#include "tests/support/check.h"

#include <tandem/core/backend.h>
#include <tandem/core/memory.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("device: an array goes to the GPU and comes back") {
  const std::vector<float> values = {1, -2, 0.5f, 1e30f};
  const Array a = Array::from_host(values.data(), {4}, float32, cuda(0));
  CHECK(a.device() == cuda(0));
  CHECK(memory::stats(cuda(0)).allocated >= 16);
  CHECK(a.to_vector<float>() == values);
  backend(cuda(0)).synchronize();
  CHECK(cudasim::catch_fault([&] { (void)*a.data<float>(); }) != "");  // it is not the host's
  CHECK(cudasim::violations().empty());
}
