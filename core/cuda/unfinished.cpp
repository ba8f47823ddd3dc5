// Families that have no kernels yet: each says so. A method leaves this file when it is written.
#include <tandem/core/cuda/backend.h>

namespace tandem {
namespace {

[[noreturn]] void not_yet(const char* family) {
  throw DeviceError(str("[", family, "] not there yet on CUDA"));
}

}  // namespace

// ---- reductions, rows, normalization, pooling

void CudaBackend::reduce(ReduceOp, const Array&, Array&) {
  not_yet("reduce");
}
void CudaBackend::arg_reduce(bool, const Array&, int, Array&) {
  not_yet("arg_reduce");
}

void CudaBackend::softmax(bool, const Array&, Array&) {
  not_yet("softmax");
}
void CudaBackend::softmax_grad(bool, const Array&, const Array&, Array&) {
  not_yet("softmax_grad");
}

void CudaBackend::nll(const Array&, const Array&, const Array&, std::int64_t, Array&, Array&) {
  not_yet("nll");
}
void CudaBackend::nll_grad(const Array&, const Array&, std::int64_t, const Array&, Array&) {
  not_yet("nll_grad");
}

void CudaBackend::moments(const Array&, Array&, Array&) {
  not_yet("moments");
}
void CudaBackend::normalize(const Array&, const Normal&, Array&) {
  not_yet("normalize");
}
void CudaBackend::normalize_sums(const Array&, const Normal&, const Array&, Array&, Array&) {
  not_yet("normalize_sums");
}
void CudaBackend::normalize_grad(const Array&, const Normal&, const Array&, const Array&,
                                 const Array&, Array&) {
  not_yet("normalize_grad");
}

void CudaBackend::gather(const char*, int, const Array&, const Array&, Array&) {
  not_yet("gather");
}
void CudaBackend::scatter_add(int, const Array&, const Array&, Array&) {
  not_yet("scatter_add");
}

void CudaBackend::max_pool2d(const Window2d&, const Array&, Array&, Array&) {
  not_yet("max_pool2d");
}
void CudaBackend::max_pool2d_grad(const Window2d&, const Array&, const Array&, Array&) {
  not_yet("max_pool2d_grad");
}
void CudaBackend::avg_pool2d(const AverageRule&, const Array&, Array&) {
  not_yet("avg_pool2d");
}
void CudaBackend::avg_pool2d_grad(const AverageRule&, const Array&, Array&) {
  not_yet("avg_pool2d_grad");
}

}  // namespace tandem
