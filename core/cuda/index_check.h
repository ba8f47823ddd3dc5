// Indices that live on the device are checked there. Private to core/cuda.
#pragma once

#include <cstdint>
#include <optional>

#include <tandem/core/cuda/backend.h>

namespace tandem::gpu {

struct BadIndex {
  std::int64_t position, value;
};

/// The first of the int64 `index`, in row-major order, that is outside of [0, size) and not
/// `ignored`.
/// Costs nothing where the host knows that there is none (Storage::known_range), as it does of
/// indices that it has sent. Else a reduction over the index, a copy of 8 bytes to the host, and
/// waiting for both: an error must be thrown by the call that caused it.
std::optional<BadIndex> first_outside(CudaBackend& device, const Array& index, std::int64_t size,
                                      std::optional<std::int64_t> ignored);

}  // namespace tandem::gpu
