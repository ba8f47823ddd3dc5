// cuDNN: convolutions, their gradients, and the questions about algorithms and workspaces.
#include "dnn/algorithms.h"
#include "dnn/convolve.h"

#include <algorithm>

using namespace cudasim;
using namespace cudasim::dnn;

namespace {

// The descriptors of a call; y and its gradient, x and its gradient, w and its gradient go by the
// same names.
struct Descriptors {
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t convolution;
  cudnnTensorDescriptor_t y;
};

Geometry geometry_of(const Convolution& c) {
  Geometry g{};
  g.n = c.x.dims[0];
  g.c = c.x.dims[1];
  g.k = c.w.dims[0];
  g.groups = c.descriptor.groups;
  for (int d : {0, 1}) {
    g.in[d] = c.x.dims[2 + d];
    g.window[d] = c.w.dims[2 + d];
    g.out[d] = c.y.dims[2 + d];
    g.pad[d] = c.descriptor.pad[d];
    g.stride[d] = c.descriptor.stride[d];
    g.dilation[d] = c.descriptor.dilation[d];
  }
  g.flipped = c.descriptor.mode == CUDNN_CONVOLUTION;
  return g;
}

cudnnStatus_t refuse_shapes(const Convolution& c) {
  if (!c.x.is_set() || !c.w.is_set() || !c.y.is_set() || !c.descriptor.is_set())
    return bad("a descriptor that was never set");
  if (c.x.rank != c.w.rank || c.x.rank != c.y.rank) return bad("different numbers of dimensions");
  if (c.x.rank != 4) return unsupported("cudasim: only four dimensions are simulated");
  if (c.x.dims[1] != c.w.dims[1] * c.descriptor.groups)
    return bad("x's channels are not w's times the group count");
  if (c.w.dims[0] % c.descriptor.groups != 0)
    return bad("w's outputs are not a multiple of the group count");
  if (c.y.dims[0] != c.x.dims[0] || c.y.dims[1] != c.w.dims[0])
    return bad("y's samples or channels are not those of x and w");
  for (int d : {0, 1}) {
    const int extent = output_extent(c.x.dims[2 + d], c.descriptor.pad[d], c.w.dims[2 + d],
                                     c.descriptor.stride[d], c.descriptor.dilation[d]);
    if (extent == 0) return bad("the filter is larger than the padded input");
    if (c.y.dims[2 + d] != extent) return bad("y's height or width is not the convolution's");
  }
  return CUDNN_STATUS_SUCCESS;
}

// Looks at everything but the algorithm.
cudnnStatus_t take(State& s, const char* function, Direction direction, const Descriptors& d,
                   Convolution& c) {
  if (!is_live(s, d.x, function) || !is_live(s, d.w, function) || !is_live(s, d.y, function) ||
      !is_live(s, d.convolution, function))
    return bad("no descriptor");
  c = {direction, {}, *d.x, *d.y, *d.w, *d.convolution};
  if (cudnnStatus_t status = refuse_shapes(c)) return status;
  c.geometry = geometry_of(c);
  return CUDNN_STATUS_SUCCESS;
}

// How float32 factors are rounded. The simulated device is of compute capability 9.0, where the
// default allows TF32; only CUDNN_FMA_MATH keeps float32 exact.
Inputs inputs_of(const Convolution& c) {
  if (c.x.type != CUDNN_DATA_FLOAT) return Inputs::exact;
  switch (c.descriptor.math) {
    case CUDNN_FMA_MATH:
      return Inputs::exact;
    case CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION:
      return Inputs::float16;
    default:
      return Inputs::tf32;
  }
}

struct Call {
  const char* function;
  Direction direction;
  Descriptors descriptors;
  int algorithm;
  const void *alpha, *beta;
  const void *x, *w, *y;  // the result's is written
  void* workspace;
  std::size_t workspace_size;
};

std::string compute(const Convolution& c, double alpha, double beta,
                    const std::vector<Operand>& o) {
  const Numbers first = read_all(o[1], inputs_of(c)), second = read_all(o[2], inputs_of(c));
  switch (c.direction) {
    case Direction::forward:
      write_scaled(o[0], convolve(c.geometry, first, second), alpha, beta);
      break;
    case Direction::to_data:
      write_scaled(o[0], convolve_to_data(c.geometry, first, second), alpha, beta);
      break;
    case Direction::to_filter:
      write_scaled(o[0], convolve_to_filter(c.geometry, first, second), alpha, beta);
      break;
  }
  return "";
}

// The result first, then the two factors in the order of convolve.h.
std::vector<Operand> operands_of(const Convolution& c, const Call& k, Access result) {
  switch (c.direction) {
    case Direction::forward:
      return {operand("y", c.y, k.y, result), operand("x", c.x, k.x, Access::read),
              operand("w", c.w, k.w, Access::read)};
    case Direction::to_data:
      return {operand("dx", c.x, k.x, result), operand("w", c.w, k.w, Access::read),
              operand("dy", c.y, k.y, Access::read)};
    case Direction::to_filter:
      return {operand("dw", c.w, k.w, result), operand("x", c.x, k.x, Access::read),
              operand("dy", c.y, k.y, Access::read)};
  }
  return {};
}

cudnnStatus_t run(State& s, Lock& lock, cudnnHandle_t handle, const Call& k) {
  Convolution c;
  if (cudnnStatus_t status = take(s, k.function, k.direction, k.descriptors, c)) return status;
  const Algorithm* algorithm = find_algorithm(k.direction, k.algorithm);
  if (cudnnStatus_t status = refuse(c, algorithm)) return status;
  if (!all_given(k.alpha, k.beta, k.x, k.w, k.y)) return bad("a null pointer");
  const std::size_t needed = workspace_bytes(c, *algorithm);
  if (!k.workspace || k.workspace_size < needed)
    return because(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
                   "the workspace is smaller than what was asked for");
  CUstream_st* stream = stream_of(s, handle, k.function);
  if (!stream) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!algorithm->is_deterministic)
    violation(s, std::string(k.function) + ": " + algorithm->name + " is not deterministic");
  const double alpha = factor(k.alpha, c.x.type), beta = factor(k.beta, c.x.type);
  enqueue_library(
      s, lock, *stream,
      {.function = k.function,
       .operands = operands_of(c, k, beta != 0 ? Access::update : Access::write),
       .workspace = {k.workspace, needed},
       .compute = [=](const std::vector<Operand>& o) { return compute(c, alpha, beta, o); }});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t run(cudnnHandle_t handle, const Call& k) {
  return call(k.function, handle, [&](State& s, Lock& lock) { return run(s, lock, handle, k); });
}

cudnnStatus_t tell_workspace(const char* function, cudnnHandle_t handle, Direction direction,
                             const Descriptors& d, int number, std::size_t* bytes) {
  return call(function, handle, [&](State& s, Lock&) {
    if (!bytes) return bad("a null pointer");
    Convolution c;
    if (cudnnStatus_t status = take(s, function, direction, d, c)) return status;
    const Algorithm* algorithm = find_algorithm(direction, number);
    if (cudnnStatus_t status = refuse(c, algorithm)) return status;
    *bytes = workspace_bytes(c, *algorithm);
    return CUDNN_STATUS_SUCCESS;
  });
}

// Those that can do it first, as the real library sorts them.
template <class Result>
cudnnStatus_t tell_algorithms(const char* function, cudnnHandle_t handle, Direction direction,
                              const Descriptors& d, int requested, int* returned, Result* results) {
  return call(function, handle, [&](State& s, Lock&) {
    if (!returned || !results || requested < 1) return bad("no room for the answer");
    Convolution c;
    if (cudnnStatus_t status = take(s, function, direction, d, c)) return status;
    std::vector<Result> all;
    for (const Algorithm& a : algorithms(direction)) {
      Result r{};
      r.algo = static_cast<decltype(r.algo)>(a.number);
      r.status = refuse(c, &a);
      r.time = -1;
      r.memory = r.status == CUDNN_STATUS_SUCCESS ? workspace_bytes(c, a) : 0;
      r.determinism = a.is_deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
      r.mathType = c.descriptor.math;
      all.push_back(r);
    }
    std::stable_partition(all.begin(), all.end(),
                          [](const Result& r) { return r.status == CUDNN_STATUS_SUCCESS; });
    *returned = std::min(requested, static_cast<int>(all.size()));
    std::copy(all.begin(), all.begin() + *returned, results);
    return CUDNN_STATUS_SUCCESS;
  });
}

// More than there are algorithms: one may be listed for several math types.
cudnnStatus_t tell_count(const char* function, cudnnHandle_t handle, Direction direction,
                         int* count) {
  return call(function, handle, [&](State&, Lock&) {
    if (!count) return bad("a null pointer");
    *count = static_cast<int>(algorithms(direction).size()) + 2;
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // namespace

extern "C" {

// ---- forward ------------------------------------------------------------------------------------

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle,
                                                                      int* count) {
  return tell_count(__func__, handle, Direction::forward, count);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  return tell_algorithms(__func__, handle, Direction::forward, {x, w, convolution, y}, requested,
                         returned, results);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return tell_workspace(__func__, handle, Direction::forward, {x, w, convolution, y}, algorithm,
                        bytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionForward(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_descriptor,
    const void* x, const cudnnFilterDescriptor_t w_descriptor, const void* w,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
    void* workspace, size_t workspace_size, const void* beta,
    const cudnnTensorDescriptor_t y_descriptor, void* y) {
  return run(handle, {__func__,
                      Direction::forward,
                      {x_descriptor, w_descriptor, convolution, y_descriptor},
                      algorithm,
                      alpha,
                      beta,
                      x,
                      w,
                      y,
                      workspace,
                      workspace_size});
}

// ---- gradient of the input ----------------------------------------------------------------------

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle,
                                                                           int* count) {
  return tell_count(__func__, handle, Direction::to_data, count);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return tell_algorithms(__func__, handle, Direction::to_data, {dx, w, convolution, dy}, requested,
                         returned, results);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return tell_workspace(__func__, handle, Direction::to_data, {dx, w, convolution, dy}, algorithm,
                        bytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t w_descriptor,
    const void* w, const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdDataAlgo_t algorithm,
    void* workspace, size_t workspace_size, const void* beta,
    const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  return run(handle, {__func__,
                      Direction::to_data,
                      {dx_descriptor, w_descriptor, convolution, dy_descriptor},
                      algorithm,
                      alpha,
                      beta,
                      dx,
                      w,
                      dy,
                      workspace,
                      workspace_size});
}

// ---- gradient of the filter ---------------------------------------------------------------------

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle,
                                                                             int* count) {
  return tell_count(__func__, handle, Direction::to_filter, count);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return tell_algorithms(__func__, handle, Direction::to_filter, {x, dw, convolution, dy},
                         requested, returned, results);
}

cudnnStatus_t CUDNNWINAPI cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return tell_workspace(__func__, handle, Direction::to_filter, {x, dw, convolution, dy}, algorithm,
                        bytes);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_descriptor,
    const void* x, const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdFilterAlgo_t algorithm,
    void* workspace, size_t workspace_size, const void* beta,
    const cudnnFilterDescriptor_t dw_descriptor, void* dw) {
  return run(handle, {__func__,
                      Direction::to_filter,
                      {x_descriptor, dw_descriptor, convolution, dy_descriptor},
                      algorithm,
                      alpha,
                      beta,
                      x,
                      dw,
                      dy,
                      workspace,
                      workspace_size});
}

}  // extern "C"
