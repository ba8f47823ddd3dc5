// Rows of arrays along the last dimension as launches, for softmax. Private to core/cuda.
#pragma once

#include <tandem/core/array.h>
#include <tandem/core/cuda/kernels/softmax.h>
#include <tandem/core/cuda/layout.h>

namespace tandem::gpu {

/// Calls f(places, offsets of the first elements in bytes) for rows of arrays of one shape.
template <std::size_t N, class F>
void for_each_rows(const std::array<const Array*, N>& arrays, F&& f) {
  std::array<Array, N> first;
  std::array<const Array*, N> pointers;
  const int last = arrays[0]->dim() - 1;
  const auto length = narrow<std::uint32_t>("softmax", arrays[0]->size(last), kMostElements);
  for (std::size_t a = 0; a < N; ++a) {
    first[a] = arrays[a]->narrow(last, 0, 1);
    pointers[a] = &first[a];
  }
  for_each_piece(Loops<N>(pointers), [&](const Loops<N>& loops, auto offset) {
    RowPlaces<int(N)> places{strided(loops), length, {}};
    for (std::size_t a = 0; a < N; ++a) {
      places.stride[a] = arrays[a]->strides()[last];
      offset[a] *= std::int64_t(size_of(arrays[a]->dtype()));
    }
    f(places, offset);
  });
}

}  // namespace tandem::gpu
