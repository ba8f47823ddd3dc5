// Computing on arrays: what op closures are made of.
//
// These functions check, resolve broadcasting, allocate the result and call the backend. They know
// nothing of history: ops/ adds that. All operands must be on one device, else UsageError naming
// both. Results are row-major unless a comment says otherwise; maps, zips and dropout keep the
// layout of their first operand of the result's shape.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/backend.h>
#include <tandem/core/functors.h>

namespace tandem {

// ---- pointwise

Array map(MapOp op, const char* name, const Array& x, Scalars s = {});
Array map_grad(MapOp op, const char* name, const Array& saved, const Array& dy, Scalars s = {});
Array zip(ZipOp op, const char* name, const Array& a, const Array& b);
/// Of the broadcast shape; sum_to() brings it back to the operand's.
Array zip_grad(ZipOp op, const char* name, int operand, const Array& a, const Array& b,
               const Array& dy);
/// x = max(x, 0) in place.
void relu_(Array& x);
/// Of y = z + bias, or relu(z + bias) if y is given: the gradient of z, {dy or y > 0 ? dy : 0},
/// and, if wanted, that of the bias, which is its sum_to(`shape`). In one pass where the backend
/// can.
std::pair<Array, Array> bias_gradients(const Array& y, const Array& dy, const Shape& shape,
                                       bool wanted);
/// a = f(a, b) in place: one write of a's slot. b broadcasts to a, and may overlap it.
void zip_(ZipOp op, const char* name, Array& a, const Array& b);

template <class F>
Array map(const Array& x, Scalars s = {}) {
  return map(map_op<F>, "map", x, s);
}
template <class F>
Array map_grad(const Array& saved, const Array& dy, Scalars s = {}) {
  return map_grad(map_op<F>, "map_grad", saved, dy, s);
}
template <class F>
Array zip(const Array& a, const Array& b) {
  return zip(zip_op<F>, "zip", a, b);
}
template <class F>
void zip_(Array& a, const Array& b) {
  zip_(zip_op<F>, "zip_", a, b);
}
/// x s, of x's dtype.
inline Array scale(const Array& x, double s) {
  return map<WithRight<Mul>>(x, {s});
}

Array where(const Array& condition, const Array& a, const Array& b);

// ---- reductions

/// Over `dims` (sorted out and checked here; empty: all of them). Max and Min refuse empty input.
Array reduce(ReduceOp op, const char* name, const Array& x, const std::vector<int>& dims,
             bool keepdim);
template <class F>
Array reduce(const Array& x, const std::vector<int>& dims = {}, bool keepdim = false) {
  return reduce(reduce_op<F>, "reduce", x, dims, keepdim);
}
Array arg_reduce(bool largest, const Array& x, int dim, bool keepdim);

/// The inverse of broadcasting, for gradients: sums x down to `shape`.
Array sum_to(const Array& x, const Shape& shape);

// ---- matrices, rows

/// (M, K) (K, N) -> (M, N), or batched (B, M, K) (B, K, N) -> (B, M, N). Transposed views are free.
Array gemm(const Array& a, const Array& b);
/// c += a b
void gemm_accumulate(const Array& a, const Array& b, Array& c);

Array softmax(bool log, const Array& x, int dim);
Array softmax_grad(bool log, const Array& y, const Array& dy, int dim);
Array dropout(const DropoutKey& key, const Array& x);

// ---- copies

/// to = from, across devices if need be (counted in trace.h), any strides; one write of `to`.
void copy(Array& to, const Array& from, CopyOptions options = {});
/// to[i] = from[i] for all i, in few launches where a launch costs something; one write of each.
/// REQUIRES: all are on one device, and none overlaps another.
void copy_all(std::span<Array> to, std::span<const Array> from);
void fill(Array& to, double value);
/// channels_last if all of them lie so (or may be seen so), and not all are contiguous too.
MemoryFormat common_format(std::span<const Array> arrays);
/// Joins along `dim`, in their common_format(); all other sizes equal. REQUIRES: at least one, on
/// one device, of one dtype.
Array concat(std::span<const Array> arrays, int dim);

/// Do elements of `x` share memory (strides of zero)?
bool expanded(const Array& x);
/// `x`, or a copy of it if writing `target` element by element could change x before it is read.
Array unharmed(const Array& x, const Array& target);
/// Throws UsageError if elements of `a` share memory (strides of zero): what is written in place
/// must have elements of its own.
void check_writable(const char* op, const Array& a);

/// Throws UsageError for int32 and uint8, which are storage types.
void check_arithmetic(const char* op, DType dtype);

/// Throws UsageError naming the op and both devices unless all defined arrays share a device.
void check_same_device(const char* op, std::initializer_list<const Array*> arrays);

}  // namespace tandem
