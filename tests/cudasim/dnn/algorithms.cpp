// See algorithms.h.
#include "dnn/algorithms.h"

namespace cudasim::dnn {
namespace {

#define FORWARD(name) CUDNN_CONVOLUTION_FWD_ALGO_##name, "CUDNN_CONVOLUTION_FWD_ALGO_" #name
#define TO_DATA(name) CUDNN_CONVOLUTION_BWD_DATA_##name, "CUDNN_CONVOLUTION_BWD_DATA_" #name
#define TO_FILTER(name) CUDNN_CONVOLUTION_BWD_FILTER_##name, "CUDNN_CONVOLUTION_BWD_FILTER_" #name

constexpr Algorithm kForward[] = {
    {FORWARD(IMPLICIT_PRECOMP_GEMM), true},
    {FORWARD(IMPLICIT_GEMM), true},
    {FORWARD(GEMM), true, true, false, false},
    {FORWARD(WINOGRAD_NONFUSED), false},
    {FORWARD(WINOGRAD), false},
    {FORWARD(FFT_TILING), false},
    {FORWARD(FFT), false},
    {FORWARD(DIRECT), false},
};
constexpr Algorithm kToData[] = {
    {TO_DATA(ALGO_0), true, false, false},    {TO_DATA(ALGO_1), true},
    {TO_DATA(ALGO_WINOGRAD_NONFUSED), false}, {TO_DATA(ALGO_WINOGRAD), false},
    {TO_DATA(ALGO_FFT_TILING), false},        {TO_DATA(ALGO_FFT), false},
};
constexpr Algorithm kToFilter[] = {
    {TO_FILTER(ALGO_0), true, false, false},
    {TO_FILTER(ALGO_3), true, false, false},
    {TO_FILTER(ALGO_1), true},
    {TO_FILTER(ALGO_WINOGRAD_NONFUSED), false},
    {TO_FILTER(ALGO_FFT_TILING), false},
    {TO_FILTER(ALGO_FFT), false},
    {TO_FILTER(ALGO_WINOGRAD), false},
};

#undef FORWARD
#undef TO_DATA
#undef TO_FILTER

// One of the documented configurations: x, w and y of one type, and the type of the arithmetic.
cudnnStatus_t refuse_types(const Convolution& c) {
  const cudnnDataType_t type = c.x.type, compute = c.descriptor.type;
  if (c.w.type != type || c.y.type != type) return unsupported("x, w and y differ in type");
  switch (type) {
    case CUDNN_DATA_FLOAT:     // FLOAT_CONFIG
    case CUDNN_DATA_BFLOAT16:  // PSEUDO_BFLOAT16_CONFIG
    case CUDNN_DATA_HALF:      // PSEUDO_HALF_CONFIG
      if (compute == CUDNN_DATA_FLOAT) return CUDNN_STATUS_SUCCESS;
      break;
    case CUDNN_DATA_DOUBLE:  // DOUBLE_CONFIG
      if (compute == CUDNN_DATA_DOUBLE) return CUDNN_STATUS_SUCCESS;
      break;
    default:
      break;
  }
  if (type == CUDNN_DATA_HALF && compute == CUDNN_DATA_HALF)
    return unsupported("cudasim: TRUE_HALF_CONFIG, which sums in float16, is not simulated");
  return unsupported("not a documented combination of data and compute types");
}

// The documentation's tables: a filter in NHWC wants both tensors HWC-packed; one in NCHW takes any
// x, but backwards only a dy that is CHW-packed.
cudnnStatus_t refuse_layout(const Convolution& c) {
  if (c.w.format == CUDNN_TENSOR_NHWC) {
    if (!is_sample_packed(c.x, CUDNN_TENSOR_NHWC) || !is_sample_packed(c.y, CUDNN_TENSOR_NHWC))
      return unsupported("a filter in NHWC wants tensors that are HWC-packed");
  } else if (c.direction != Direction::forward && !is_sample_packed(c.y, CUDNN_TENSOR_NCHW)) {
    return unsupported("a filter in NCHW wants a dy that is CHW-packed");
  }
  for (int d = 0; d < 4; ++d)
    if (c.x.strides[d] < 0 || c.y.strides[d] < 0) return unsupported("a negative stride");
  return CUDNN_STATUS_SUCCESS;
}

// What a test has said of it, if that concerns so many samples.
const Hampered* hampered(const Convolution& c, const Algorithm& algorithm) {
  const auto it = state().hampered.find(algorithm.name);
  return it != state().hampered.end() && c.geometry.n > it->second.samples ? &it->second : nullptr;
}

}  // namespace

std::span<const Algorithm> algorithms(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return kForward;
    case Direction::to_data:
      return kToData;
    case Direction::to_filter:
      return kToFilter;
  }
  return {};
}

const Algorithm* find_algorithm(Direction direction, int number) {
  for (const Algorithm& a : algorithms(direction))
    if (a.number == number) return &a;
  return nullptr;
}

cudnnStatus_t refuse(const Convolution& c, const Algorithm* algorithm) {
  if (!algorithm) return bad("not an algorithm");
  if (cudnnStatus_t status = refuse_types(c)) return status;
  if (cudnnStatus_t status = refuse_layout(c)) return status;
  const std::string name = algorithm->name;
  if (!algorithm->is_simulated) return unsupported("cudasim: " + name + " is not simulated");
  if (c.x.type == CUDNN_DATA_BFLOAT16 && !algorithm->takes_bfloat16)
    return unsupported(name + " does not take bfloat16");
  const bool dilated = c.descriptor.dilation[0] > 1 || c.descriptor.dilation[1] > 1;
  if (dilated && !algorithm->takes_dilation) return unsupported(name + " takes no dilation");
  if (const Hampered* h = hampered(c, *algorithm); h && h->workspace == 0)
    return unsupported(name + " is hampered by a test");
  return CUDNN_STATUS_SUCCESS;
}

std::size_t workspace_bytes(const Convolution& c, const Algorithm& algorithm) {
  if (const Hampered* h = hampered(c, algorithm)) return h->workspace;
  const Geometry& g = c.geometry;
  const std::int64_t shape = g.n * g.out[0] * g.out[1] + g.k * g.c * g.window[0] * g.window[1];
  const int direction = static_cast<int>(c.direction);
  return 3017 + 2000 * direction + 128 * algorithm.number + 2 * (shape % 1000);
}

}  // namespace cudasim::dnn
