// Trace: what moved between devices or within one, and what was computed. Always on: a few relaxed
// atomic additions per copy, one plain addition per matrix product.
//
// Take a snapshot before and after, and subtract:
//   auto before = trace::copies(cpu(1));  net(x);  auto moved = trace::copies(cpu(1)) - before;
#pragma once

#include <cstdint>

#include <tandem/core/device.h>

namespace tandem::trace {

/// Copies between logical devices as one device saw them; bytes and numbers since the start.
struct Copies {
  std::int64_t in_count = 0, in_bytes = 0;    // to this device
  std::int64_t out_count = 0, out_bytes = 0;  // from this device

  Copies operator-(const Copies& o) const {
    return {in_count - o.in_count, in_bytes - o.in_bytes, out_count - o.out_count,
            out_bytes - o.out_bytes};
  }
};

Copies copies(Device device);

/// Of all devices: each copy is counted once in `in_*` and once in `out_*`.
Copies all_copies();

/// Called by whoever moves bytes from one logical device to another.
void count_copy(Device from, Device to, std::int64_t bytes);

/// Floating-point operations of the matrix products and convolutions that this thread asked for
/// since it started, backward included; a multiply-add counts as two.
std::int64_t flops();

/// Called where such work is handed to a backend.
void count_flops(std::int64_t flops);

/// Copies within a device that changed nothing but how elements lie; of all threads, since the
/// start. What a kernel packs in its workspace is its own affair and not among them.
struct LayoutCopies {
  std::int64_t conversions = 0;  // 4-D arrays: from row-major to channels-last or back
  std::int64_t reshapes = 0;     // where strides did not allow a view

  LayoutCopies operator-(const LayoutCopies& o) const {
    return {conversions - o.conversions, reshapes - o.reshapes};
  }
};

LayoutCopies layout_copies();

/// Called where such a copy is made.
void count_conversion();
void count_reshape();

}  // namespace tandem::trace
