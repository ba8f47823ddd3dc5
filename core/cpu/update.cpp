// Optimizer steps: the rules of UpdateOps, one pass over parameter, gradient and state.
#include <vector>

#include <tandem/core/cpu/backend.h>
#include <tandem/core/cpu/traverse.h>

namespace tandem {
namespace {

template <class T>
struct Pointers {
  T* p;
  const T* g;
  std::array<T*, 3> s;  // null where the rule has no state
};

template <class Rule, class C>
void step(const typename Rule::template Step<C> rule, const Pointers<C>& at, std::int64_t n) {
  C* __restrict p = at.p;
  const C* __restrict g = at.g;
  C* __restrict s0 = at.s[0];
  C* __restrict s1 = at.s[1];
  C* __restrict s2 = at.s[2];
  if constexpr (requires { rule.is_plain(); }) {
    if (rule.is_plain()) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) rule.plain(p[i], g[i], s0[i], s1[i]);
      return;
    }
  }
  // States come in order, so four loops cover all rules. A missing state is a local of one
  // iteration: nothing is carried from one to the next, and the loop vectorises.
  if (s2 != nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) rule(p[i], g[i], s0[i], s1[i], s2[i]);
  } else if (s1 != nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      C none{};
      rule(p[i], g[i], s0[i], s1[i], none);
    }
  } else if (s0 != nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      C none[2]{};
      rule(p[i], g[i], s0[i], none[0], none[1]);
    }
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      C none[3]{};
      rule(p[i], g[i], none[0], none[1], none[2]);
    }
  }
}

template <class Rule>
void run_update(std::span<UpdateItem> items) {
  for (UpdateItem& item : items) {
    const std::int64_t n = item.param.numel();
    host::with_compute_type<Domain::floats>(item.param.dtype(), [&]<class C>(host::Type<C>) {
      const typename Rule::template Step<C> rule(item.c);
      // 16-bit parameters are computed in float32 and rounded once.
      std::array<Array*, 5> arrays{&item.param, &item.grad, &item.state[0], &item.state[1],
                                   &item.state[2]};
      std::array<Array, 5> in_c;
      std::array<C*, 5> data{};
      for (std::size_t k = 0; k < arrays.size(); ++k) {
        if (!arrays[k]->defined()) continue;
        in_c[k] = arrays[k]->to(dtype_of<C>);
        data[k] = in_c[k].template fresh_data<C>();
      }
      const auto part = [&](std::int64_t begin, std::int64_t end) {
        const auto at = [&](std::size_t k) { return data[k] ? data[k] + begin : nullptr; };
        step<Rule, C>(rule, {at(0), at(1), {at(2), at(3), at(4)}}, end - begin);
      };
      host::for_each_range(item.param.device(), n, 0.6 * double(n), part, 64);
      for (std::size_t k = 0; k < arrays.size(); ++k) {
        if (k == 1 || !arrays[k]->defined()) continue;
        if (arrays[k]->dtype() != dtype_of<C>) {
          backend(item.param.device()).cast(in_c[k], *arrays[k]);
        }
      }
    });
  }
}

template <class... F>
constexpr auto update_table(OpList<F...>) {
  return std::array{&run_update<F>...};
}

}  // namespace

void CpuBackend::update(UpdateOp op, std::span<UpdateItem> items) {
  static constexpr auto table = update_table(UpdateOps{});
  table[std::size_t(op)](items);
}

}  // namespace tandem
