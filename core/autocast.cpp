#include <tandem/core/autocast.h>

#include <optional>

#include <tandem/core/autograd.h>

namespace tandem {
namespace {

// The fast type for x; none if x is not eligible.
std::optional<DType> fast_type(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype()) || x.dtype() == DType::float64) return {};
  return thread_state().autocast.fast[std::size_t(x.device().kind)];
}

}  // namespace

namespace detail {

Recast find_recast(CastGroup group, const Tensor* const* first, std::size_t count) {
  std::optional<DType> target;
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<DType> fast = fast_type(*first[i]);
    if (!fast) continue;
    if (group == CastGroup::low) {
      target = *fast;
      break;
    }
    if (group == CastGroup::full) {
      target = DType::float32;
      break;
    }
    const DType dtype = first[i]->dtype();
    const bool both_narrow = target && size_of(*target) == 2 && size_of(dtype) == 2;
    check(!both_narrow || dtype == *target, "[autocast] a tensor of ", *target, " meets one of ",
          dtype, ". Convert one of them with to(dtype)");
    target = target ? promote(*target, dtype) : dtype;
  }
  if (!target) return {};
  for (std::size_t i = 0; i < count; ++i) {
    if (fast_type(*first[i]) && first[i]->dtype() != *target) return Recast(*target);
  }
  return {};
}

}  // namespace detail

Recast recast(CastGroup group, const std::vector<Tensor>& xs) {
  if (!thread_state().autocast.on) return {};
  std::vector<const Tensor*> list;
  for (const Tensor& x : xs) list.push_back(&x);
  return detail::find_recast(group, list.data(), list.size());
}

// dx = dy in x's type
Tensor Recast::operator()(const Tensor& x) const {
  const std::optional<DType> fast = any_ ? fast_type(x) : std::nullopt;
  if (!fast || x.dtype() == dtype_) return x;
  // Weights: float32 leaves that require a gradient. Other tensors are seldom used twice.
  CastCache* cache = thread_state().autocast.casts;
  const bool weight = x.dtype() == DType::float32 && x.is_leaf() && x.requires_grad();
  Array y = cache != nullptr && weight ? cache->get(x, dtype_) : x.array().to(dtype_);
  return record(
      "autocast", std::move(y), {x},
      [back = x.dtype()](const Array& dy, const Wanted&) { return dy.to(back); }, Keeps::nothing);
}

std::vector<Tensor> Recast::operator()(const std::vector<Tensor>& xs) const {
  std::vector<Tensor> casts;
  casts.reserve(xs.size());
  for (const Tensor& x : xs) casts.push_back((*this)(x));
  return casts;
}

Array CastCache::get(const Tensor& x, DType dtype) {
  const Array& value = x.array();
  Entry& entry = entries_[{x.impl().get(), dtype}];
  const bool good =
      entry.cast.defined() && entry.source.same_as(value) && entry.version == value.version();
  if (!good) entry = {value, value.version(), value.to(dtype)};
  return entry.cast;
}

OwnCasts::OwnCasts() : before_(thread_state().autocast.casts) {
  if (before_ != nullptr) thread_state().autocast.casts = &cache_;
}

}  // namespace tandem
