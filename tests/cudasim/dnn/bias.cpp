// cuDNN: the bias of a convolution, added and its gradient.
#include "dnn/context.h"

using namespace cudasim;
using namespace cudasim::dnn;

namespace {

cudnnStatus_t queue(State& s, Lock& lock, cudnnHandle_t handle, LibraryOperation operation) {
  CUstream_st* stream = stream_of(s, handle, operation.function);
  if (!stream) return CUDNN_STATUS_EXECUTION_FAILED;
  enqueue_library(s, lock, *stream, std::move(operation));
  return CUDNN_STATUS_SUCCESS;
}

Access result_access(double beta) {
  return beta != 0 ? Access::update : Access::write;
}

}  // namespace

extern "C" {

// db(c) = alpha (sum of dy(n, c, h, w) over n, h, w) + beta db(c)
cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                                       const cudnnTensorDescriptor_t dy_descriptor,
                                                       const void* dy, const void* beta,
                                                       const cudnnTensorDescriptor_t db_descriptor,
                                                       void* db) {
  const char* function = __func__;
  return call(function, handle, [&](State& s, Lock& lock) {
    if (!is_live(s, dy_descriptor, function) || !is_live(s, db_descriptor, function))
      return bad("no descriptor");
    const cudnnTensorStruct y = *dy_descriptor, b = *db_descriptor;
    if (!y.is_set() || !b.is_set()) return bad("a descriptor that was never set");
    if (!all_given(alpha, beta, dy, db)) return bad("a null pointer");
    if (y.rank != 4 || b.rank != 4) return unsupported("cudasim: not four dimensions");
    if (b.dims[0] != 1 || b.dims[1] != y.dims[1] || b.dims[2] != 1 || b.dims[3] != 1)
      return bad("db is not (1, C, 1, 1) with dy's C");
    if (b.type != y.type) return bad("dy and db differ in type");
    Real type;
    if (!real_of(y.type, type)) return unsupported("not a floating-point type");
    const double a = factor(alpha, y.type), e = factor(beta, y.type);
    return queue(
        s, lock, handle,
        {.function = function,
         .operands = {operand("db", b, db, result_access(e)), operand("dy", y, dy, Access::read)},
         .compute = [=](const std::vector<Operand>& o) {
           std::vector<double> sums(y.dims[1], 0.0);
           const std::vector<double> all = read_all(o[1]);
           const std::size_t plane = y.dims[2] * y.dims[3];
           for (std::size_t i = 0; i < all.size(); ++i) sums[i / plane % sums.size()] += all[i];
           write_scaled(o[0], std::move(sums), a, e);
           return "";
         }});
  });
}

// C = alpha A + beta C; a dimension of A that is 1 is repeated
cudnnStatus_t CUDNNWINAPI cudnnAddTensor(cudnnHandle_t handle, const void* alpha,
                                         const cudnnTensorDescriptor_t a_descriptor, const void* a,
                                         const void* beta,
                                         const cudnnTensorDescriptor_t c_descriptor, void* c) {
  const char* function = __func__;
  return call(function, handle, [&](State& s, Lock& lock) {
    if (!is_live(s, a_descriptor, function) || !is_live(s, c_descriptor, function))
      return bad("no descriptor");
    const cudnnTensorStruct from = *a_descriptor, to = *c_descriptor;
    if (!from.is_set() || !to.is_set()) return bad("a descriptor that was never set");
    if (!all_given(alpha, beta, a, c)) return bad("a null pointer");
    if (from.rank != to.rank) return bad("different numbers of dimensions");
    Operand repeated = operand("A", from, a, Access::read);
    for (int d = 0; d < to.rank; ++d) {
      if (from.dims[d] != 1 && from.dims[d] != to.dims[d]) return bad("A does not fit C");
      if (from.dims[d] == 1) repeated.strides[d] = 0;
      repeated.dims[d] = to.dims[d];
    }
    Real type;
    if (from.type != to.type || !real_of(to.type, type)) return unsupported("the types");
    const double factor_a = factor(alpha, to.type), factor_c = factor(beta, to.type);
    return queue(s, lock, handle,
                 {.function = function,
                  .operands = {operand("C", to, c, result_access(factor_c)), repeated},
                  .compute = [=](const std::vector<Operand>& o) {
                    write_scaled(o[0], read_all(o[1]), factor_a, factor_c);
                    return "";
                  }});
  });
}

}  // extern "C"
