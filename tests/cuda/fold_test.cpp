// How reductions are cut: arrays of more elements than 32 bits count, which no simulator could
// walk.
#include <doctest/doctest.h>

#include "tests/support/check.h"

#include <tandem/core/cuda/folds.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("fold: parts hold all values, none is empty, and no grid is too large") {
  for (std::uint32_t results : {1u, 31u, 1023u, 1024u, 1u << 20, gpu::kMostElements}) {
    for (std::uint32_t values :
         {1u, 16u, 17u, 511u, 8192u, 8193u, 262145u, 1u << 24, gpu::kMostElements}) {
      for (bool side_by_side : {false, true}) {
        CAPTURE(results);
        CAPTURE(values);
        CAPTURE(side_by_side);
        const gpu::FoldPlan p = gpu::plan_fold(results, values, side_by_side);
        const std::uint64_t chunk = p.chunk;
        CHECK((p.parts - 1) * chunk < values);
        CHECK(values <= p.parts * chunk);
        CHECK(p.parts <= 65535);
        CHECK((p.side_by_side || p.parts == 1 || values > gpu::kLongRow));  // a warp takes it all
      }
    }
  }
}

TEST_CASE("fold: pieces of a huge reduction fill slots of their own, in the order of the values") {
  const std::int64_t size = (std::int64_t(1) << 33) + 5;
  const float one = 1;
  const Array x = Array::from_host(&one, {1, 1}, float32, cuda(0)).expand({3, size});
  const Array y = Array::empty({3, 1}, float32, cuda(0));
  std::int64_t values = 0;
  std::uint32_t slots = 0, all = 0;
  int calls = 0;
  gpu::for_each_fold(x, y,
                     [&](const gpu::FoldPlaces& places, const gpu::FoldPlan& plan,
                         std::int64_t from, std::int64_t to, void* partials) {
                       CHECK(places.first == values);
                       CHECK(places.kept.numel == 3);
                       CHECK(places.gone.numel == plan.values);
                       CHECK(plan.slot == slots);
                       CHECK(from == 0);  // strides of zero
                       CHECK(to == 0);
                       CHECK(partials != nullptr);
                       values += plan.values;
                       slots += plan.parts;
                       all = plan.slots;
                       ++calls;
                     });
  CHECK(values == size);
  CHECK(slots == all);
  CHECK(calls > 4);
}
