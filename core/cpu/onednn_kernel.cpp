#include <tandem/core/cpu/onednn_kernel.h>

#include <dlfcn.h>

#include <mutex>
#include <string_view>

#include <tandem/core/memory.h>

namespace tandem::host {
namespace {

using dnnl::memory;

// Of the OpenMP that oneDNN has loaded, if any.
struct OpenMp {
  int (*threads)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  void (*set_threads)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT,
                                                                   "omp_set_num_threads"));
};

const OpenMp& open_mp() {
  static const OpenMp functions;
  return functions;
}

// Version 2 describes an operation apart from its primitive, version 3 does not.
template <class P, class... Args>
typename P::primitive_desc describe(const dnnl::primitive_attr& attr, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {onednn_engine(), args..., attr};
#else
  return {typename P::desc(args...), attr, onednn_engine()};
#endif
}
template <class P, class Forward, class... Args>
typename P::primitive_desc describe_gradient(const dnnl::primitive_attr& attr,
                                             const Forward& forward, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {onednn_engine(), args..., forward, attr};
#else
  return {typename P::desc(args...), attr, onednn_engine(), forward};
#endif
}

memory::data_type type_of(DType dtype) {
  return dtype == bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}
memory::desc image_desc(const Convolution& c, const Shape& shape) {
  const bool last = c.images == MemoryFormat::channels_last;
  return {memory::dims(shape.begin(), shape.end()), type_of(c.dtype),
          last ? memory::format_tag::nhwc : memory::format_tag::nchw};
}

// (O, C / groups, KH, KW), or (groups, O / groups, C / groups, KH, KW).
memory::dims weight_dims(const Convolution& c) {
  memory::dims d(c.w.begin(), c.w.end());
  if (c.groups > 1) d.insert(d.begin(), c.groups), d[1] /= c.groups;
  return d;
}

memory::desc weight_desc(const Convolution& c) {
  memory::dims s(c.w_strides.begin(), c.w_strides.end());
  if (c.groups > 1) s.insert(s.begin(), c.w[0] / c.groups * s[0]);
  return {weight_dims(c), type_of(c.dtype), s};
}

memory::desc bias_desc(const Convolution& c) {
  if (!c.biased) return {};
  return {{c.w[0]}, type_of(c.dtype), memory::format_tag::x};
}

memory without_data(const memory::desc& desc) {
  return {desc, onednn_engine(), DNNL_MEMORY_NONE};
}

// Primitives called ref are loops for testing, a hundred times slower than Eigen.
template <class PrimitiveDesc>
bool is_quick(const PrimitiveDesc& desc) {
  return std::string_view(desc.impl_info_str()).find("ref") == std::string_view::npos;
}

dnnl::primitive_attr own_workspace() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// The kernel of a convolution whose primitive wants weights as `packed`.
template <class P>
Kernel convolution_kernel(const Convolution& c, const typename P::primitive_desc& desc,
                          const memory::desc& packed) {
  Kernel k;
  if (!is_quick(desc)) return k;
  k.compute = P(desc);
  k.x = without_data(image_desc(c, c.x));
  k.y = without_data(image_desc(c, c.y));
  k.w = without_data(weight_desc(c));
  k.scratch = without_data(desc.scratchpad_desc());
  k.w_is_result = c.operation == Convolution::grad_weight;
  if (packed != weight_desc(c)) {
    k.packed = without_data(packed);
    const dnnl::reorder::primitive_desc repack(k.w_is_result ? k.packed : k.w,
                                               k.w_is_result ? k.w : k.packed, own_workspace());
    k.repack = dnnl::reorder(repack);
    k.repack_scratch = without_data(repack.scratchpad_desc());
  }
  const bool dx = c.operation == Convolution::grad_input, forward = !dx && !k.w_is_result;
  k.arguments = {
      {dx ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, k.x},
      {k.w_is_result ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, k.repack ? k.packed : k.w},
      {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, k.y},
      {DNNL_ARG_SCRATCHPAD, k.scratch}};
  if (c.biased) {
    k.bias = without_data(bias_desc(c));
    k.arguments.insert({DNNL_ARG_BIAS, k.bias});
  }
  return k;
}

// Memory that lives for a call, if any is needed.
Array room_for(memory& what, Device device) {
  Array room;
  if (!what) return room;
  const auto bytes = std::int64_t(what.get_desc().get_size());
  if (bytes > 0) {
    room = Array::empty({bytes}, uint8, device);
    what.set_data_handle(room.fresh_data());
  }
  return room;
}

void point(memory& at, const Array& values) {
  if (at) at.set_data_handle(const_cast<std::byte*>(values.data()));
}

// One matrix of a product, or a batch of them.
struct Factor {
  memory::dims dims, strides;

  explicit Factor(const Array& a)
      : dims(a.shape().begin(), a.shape().end()), strides(a.strides().begin(), a.strides().end()) {
    if (strides[0] == 0) dims[0] = 1, strides[0] = a.size(1) * a.size(2);  // shared by the batch
  }
  memory::desc desc(DType dtype) const { return {dims, type_of(dtype), strides}; }
};

}  // namespace

const dnnl::engine& onednn_engine() {
  static const auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);  // devices outlive statics
  return *e;
}

OneThread::OneThread() : before_(open_mp().threads ? open_mp().threads() : 1) {
  if (before_ != 1) open_mp().set_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) open_mp().set_threads(before_);
}

std::vector<std::int64_t> Convolution::key() const {
  std::vector<std::int64_t> k{std::int64_t(operation), groups, std::int64_t(dtype),
                              std::int64_t(images), std::int64_t(biased)};
  for (Size2d s : {window.kernel, window.stride, window.padding, window.dilation}) {
    k.insert(k.end(), {s.h, s.w});
  }
  for (const Shape& s : {x, w, y, w_strides}) k.insert(k.end(), s.begin(), s.end());
  return k;
}

// Kernels are made one at a time, on whatever device: oneDNN keeps what it compiled in tables of
// the whole process, and ThreadSanitizer cannot see the locks inside of the library.
std::mutex& making_a_kernel() {
  static std::mutex mutex;
  return mutex;
}

Kernel make_kernel(const Convolution& c) {
  const std::lock_guard lock(making_a_kernel());
  const auto direct = dnnl::algorithm::convolution_direct;
  const Window2d& win = c.window;
  const memory::dims stride{win.stride.h, win.stride.w}, padding{win.padding.h, win.padding.w},
      gaps{win.dilation.h - 1, win.dilation.w - 1};  // dilation as oneDNN counts it
  const memory::desc x = image_desc(c, c.x),
                     w = {weight_dims(c), type_of(c.dtype), memory::format_tag::any},
                     y = image_desc(c, c.y), bias = bias_desc(c);
  const dnnl::primitive_attr attr = own_workspace();
  const auto forward =
      describe<dnnl::convolution_forward>(attr, dnnl::prop_kind::forward_training, direct, x, w,
                                          bias, y, stride, gaps, padding, padding);
  if (c.operation == Convolution::forward) {
    return convolution_kernel<dnnl::convolution_forward>(c, forward, forward.weights_desc());
  }
  if (c.operation == Convolution::grad_input) {
    using P = dnnl::convolution_backward_data;
    const auto desc =
        describe_gradient<P>(attr, forward, direct, x, w, y, stride, gaps, padding, padding);
    return convolution_kernel<P>(c, desc, desc.weights_desc());
  }
  using P = dnnl::convolution_backward_weights;
  const auto desc =
      describe_gradient<P>(attr, forward, direct, x, w, y, stride, gaps, padding, padding);
  return convolution_kernel<P>(c, desc, desc.diff_weights_desc());
}

Kernel make_kernel(const Array& a, const Array& b, const Array& c, bool accumulate) {
  const std::lock_guard lock(making_a_kernel());
  dnnl::primitive_attr attr = own_workspace();
  if (accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0f);
    attr.set_post_ops(add);
  }
  Kernel k;
  const auto desc = describe<dnnl::matmul>(attr, Factor(a).desc(a.dtype()),
                                           Factor(b).desc(a.dtype()), Factor(c).desc(a.dtype()));
  if (!is_quick(desc)) return k;
  k.compute = dnnl::matmul(desc);
  k.x = without_data(desc.src_desc());
  k.w = without_data(desc.weights_desc());
  k.y = without_data(desc.dst_desc());
  k.scratch = without_data(desc.scratchpad_desc());
  k.arguments = {{DNNL_ARG_SRC, k.x},
                 {DNNL_ARG_WEIGHTS, k.w},
                 {DNNL_ARG_DST, k.y},
                 {DNNL_ARG_SCRATCHPAD, k.scratch}};
  return k;
}

std::vector<std::int64_t> product_key(const Array& a, const Array& b, const Array& c,
                                      bool accumulate) {
  std::vector<std::int64_t> key{std::int64_t(a.dtype()), std::int64_t(accumulate)};
  for (const Array* x : {&a, &b, &c}) {
    key.insert(key.end(), x->shape().begin(), x->shape().end());
    key.insert(key.end(), x->strides().begin(), x->strides().end());
  }
  return key;
}

void Kernel::run(const dnnl::stream& stream, const Array& x_values, const Array& w_values,
                 const Array& bias_values, const Array& y_values) {
  const CategoryScope scope(Category::workspace);
  const Device device = y_values.device();
  const Array held[] = {room_for(packed, device), room_for(scratch, device),
                        room_for(repack_scratch, device)};
  const auto repack_weights = [&](const dnnl::memory& from, const dnnl::memory& to) {
    repack.execute(
        stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, repack_scratch}});
  };
  point(x, x_values), point(w, w_values), point(y, y_values);
  if (bias) point(bias, bias_values);
  if (repack && !w_is_result) repack_weights(w, packed);
  compute.execute(stream, arguments);
  if (repack && w_is_result) repack_weights(packed, w);
}

}  // namespace tandem::host
