// Maps and their derivatives: the rules of MapOps on blocks.
#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/packets.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

template <class F, class C>
inline constexpr bool uses_packets = F::packet&& std::is_floating_point_v<C>;

template <class F>
void run_map(Scalars s, const Array& x, Array& y) {
  host::with_compute_type<F::domain>(x.dtype(), [&]<class C>(host::Type<C>) {
    const Params<C> p{host::convert<C>(s.a), host::convert<C>(s.b)};
    host::for_each_block<C, C, 1>(y, {&x}, [p](std::int64_t n, C* out, const C* in) {
      if constexpr (uses_packets<F, C>) {
        host::for_each_packet(
            n, out, [p](auto v) { return F::forward(v, p); }, in);
      } else {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) out[i] = F::forward(in[i], p);
      }
    });
  });
}

template <class F>
void run_map_grad(Scalars s, const Array& saved, const Array& dy, Array& dx) {
  if constexpr (F::domain != Domain::bools) {
    host::with_compute_type<Domain::floats>(dy.dtype(), [&]<class C>(host::Type<C>) {
      const Params<C> p{host::convert<C>(s.a), host::convert<C>(s.b)};
      const Array& x = F::saves == Saves::nothing ? dy : saved;
      host::for_each_block<C, C, 2>(
          dx, {&x, &dy}, [p](std::int64_t n, C* out, const C* in, const C* g) {
            if constexpr (uses_packets<F, C>) {
              host::for_each_packet(
                  n, out, [p](auto v, auto dv) { return F::grad(v, dv, p); }, in, g);
            } else {
#pragma GCC ivdep
              for (std::int64_t i = 0; i < n; ++i) out[i] = F::grad(in[i], g[i], p);
            }
          });
    });
  }
}

template <class... F>
constexpr auto map_table(OpList<F...>) {
  return std::array{&run_map<F>...};
}
template <class... F>
constexpr auto map_grad_table(OpList<F...>) {
  return std::array{&run_map_grad<F>...};
}

}  // namespace

void CpuBackend::map(MapOp op, Scalars s, const Array& x, Array& y) {
  static constexpr auto table = map_table(MapOps{});
  table[std::size_t(op)](s, x, y);
}

void CpuBackend::map_grad(MapOp op, Scalars s, const Array& saved, const Array& dy, Array& dx) {
  static constexpr auto table = map_grad_table(MapOps{});
  table[std::size_t(op)](s, saved, dy, dx);
}

}  // namespace tandem
