// Gradients times a factor, measured in the same pass: block by block, so that what was just
// written is still in the nearest cache when its squares are added up.
#include <tandem/core/cpu/accumulate.h>
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

// `n` numbers: are all finite before the factor?
template <class C>
bool multiply(C* p, std::int64_t n, C factor) {
  int bad = 0;
  for (std::int64_t i = 0; i < n; ++i) bad |= int(!RescaleRule::finite(p[i]));
  if (factor != C(1)) {
    for (std::int64_t i = 0; i < n; ++i) p[i] *= factor;
  }
  return bad == 0;
}

// found = {sum of squares of the products, 1 if not all were finite}
template <class C>
void rescale_one(C factor, Array& x, C* found) {
  const bool direct = x.dtype() == dtype_of<C>;
  const auto size = std::int64_t(size_of(x.dtype()));
  const auto add = [](C& sum, const C& value) { sum += value; };
  host::Counter<C, decltype(add)> squares(C(0), add);
  bool finite = true;
  C buffer[host::kBlock];
  for (std::int64_t i = 0; i < x.numel(); i += host::kBlock) {
    const std::int64_t n = std::min(host::kBlock, x.numel() - i);
    std::byte* bytes = x.fresh_data() + i * size;
    C* p = direct ? reinterpret_cast<C*>(bytes) : buffer;
    if (!direct) host::gather(x.dtype(), bytes, 1, n, buffer);
    finite &= multiply(p, n, factor);
    if (!direct && factor != C(1)) host::scatter(x.dtype(), buffer, bytes, 1, n);
    add(squares.lowest(), host::reduce_block<SumOfSquaresRule>(p, n));
    squares.carry();
  }
  found[0] = squares.total();
  found[1] = finite ? C(0) : C(1);
}

}  // namespace

void CpuBackend::rescale(double factor, std::span<Array> xs, Array& found) {
  host::with_compute_type<Domain::floats>(found.dtype(), [&]<class C>(host::Type<C>) {
    C* row = found.fresh_data<C>();
    for (Array& x : xs) {
      rescale_one<C>(C(factor), x, row);
      row += 2;
    }
  });
}

}  // namespace tandem
