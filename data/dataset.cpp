#include <cstring>
#include <utility>

#include <tandem/core/error.h>
#include <tandem/core/memory.h>
#include <tandem/data/dataset.h>

namespace tandem::data {
namespace {

/// Rows are picked on the host: data sets live in its memory, whichever device trains.
Tensor on_host(const Tensor& t) {
  return t.device().kind == DeviceKind::cpu ? t.contiguous() : t.to(cpu(0)).contiguous();
}

Tensor pick(const Tensor& source, const std::vector<std::int64_t>& rows) {
  const Tensor host = on_host(source);
  Shape shape = host.shape();
  const std::int64_t count = shape[0];
  shape[0] = std::int64_t(rows.size());
  Array out = Array::empty(shape, host.dtype(), host.device());
  const std::size_t bytes = count ? std::size_t(host.array().nbytes() / count) : 0;
  std::byte* to = out.fresh_data();
  for (const std::int64_t row : rows) {
    check(0 <= row && row < count, "[TensorDataset] no row ", row, ": there are ", count);
    if (bytes) std::memcpy(to, host.array().data() + std::size_t(row) * bytes, bytes);
    to += bytes;
  }
  return Tensor(out.to(source.device()));
}

}  // namespace

TensorDataset::TensorDataset(Tensor samples, Tensor targets)
    : x(std::move(samples)), y(std::move(targets)) {
  check(x.defined() && y.defined(), "[TensorDataset] samples or targets are undefined");
  check(x.dim() >= 1 && y.dim() >= 1, "[TensorDataset] a tensor has no rows: shapes ", x.shape(),
        " and ", y.shape());
  check(x.size(0) == y.size(0), "[TensorDataset] samples and targets differ in number: ", x.size(0),
        " and ", y.size(0));
}

Batch TensorDataset::rows(const std::vector<std::int64_t>& rows) const {
  const CategoryScope scope(Category::input);
  return {pick(x, rows), pick(y, rows)};
}

}  // namespace tandem::data
