#include <tandem/core/cuda/folds.h>
#include <tandem/core/cuda/index_check.h>

namespace tandem::gpu {

std::optional<BadIndex> first_outside(CudaBackend& device, const Array& index, std::int64_t size,
                                      std::optional<std::int64_t> ignored) {
  if (const auto known = index.storage()->known_range()) {
    if (known->least >= 0 && known->largest < size) return std::nullopt;
  }
  const IndexRange range{size, ignored.value_or(0), ignored.has_value()};
  const Array list = index.contiguous();
  const auto* data = list.data<std::int64_t>();
  Array found = workspace(sizeof(std::int64_t), device.device());
  auto* const position = reinterpret_cast<std::int64_t*>(found.fresh_data());
  for (std::int64_t start = 0; start < list.numel(); start += kMostElements) {
    const auto n = std::min<std::int64_t>(kMostElements, list.numel() - start);
    const FoldPlan plan = plan_fold(1, narrow<std::uint32_t>("gather", n), false);
    Array partials = partials_for(plan, device.device());
    device.launch("first_outside", [&](cudaStream_t s) {
      launch_first_outside(plan, range, data + start, position, data_of(partials), s);
    });
    std::int64_t at = 0, value = 0;
    device.copy_to_host(&at, position, sizeof at);
    if (at == kAllInside) continue;
    device.copy_to_host(&value, data + start + at, sizeof value);
    return BadIndex{start + at, value};
  }
  return std::nullopt;
}

}  // namespace tandem::gpu
