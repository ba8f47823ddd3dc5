// oneDNN, versions 2 and 3, where it was found: matrix products and convolutions. Private to
// core/cpu; no other file knows its names.
//
// Everything here may decline by returning false, with nothing written: then Eigen computes
// (gemm.cpp, conv.cpp). That happens without oneDNN, when it is switched off (numerics.h), for
// types that this processor cannot multiply, and where Eigen is as quick. OpenMP's threads are not
// used, but those of the device (team.h).
#pragma once

#include <memory>

#include <tandem/core/array.h>
#include <tandem/core/cpu/gemm.h>
#include <tandem/core/window.h>

namespace tandem::host {

/// Is this product one for oneDNN?
bool onednn_takes(const Matrix<float>& a, const Matrix<float>& b);
/// Products of results (M, N) that are thin are computed in another way than others, whose bits are
/// others too.
bool onednn_is_thin(std::int64_t m, std::int64_t n);
/// Does it use AVX-512? Then it chooses its ways by other rules.
bool onednn_has_avx512();
/// A transposed `a` whose numbers would push each other out of the first cache is copied into
/// workspace of the device, and becomes the copy. Undefined if that is not worth it.
Array onednn_spread(Device device, Matrix<float>& a, const Matrix<float>& b);
/// c = a b, or c += a b if `accumulate`. c is row-major. REQUIRES: oneDNN takes it, or the product
/// that it is a part of (see gemm.cpp).
bool onednn_product(const Matrix<float>& a, const Matrix<float>& b, float* c, std::int64_t c_stride,
                    bool accumulate);

/// Kernels of one device, made when first needed and kept: one per operation, shape and layout, the
/// refusals too. Thread safe: two engines may share a device, but its kernels run one at a time.
class OneDnn {
 public:
  OneDnn();
  ~OneDnn();

  // As in core/backend.h. Products of bfloat16, convolutions of float32 and bfloat16.
  bool gemm(const Array& a, const Array& b, Array& c, bool accumulate);
  bool conv2d(const Window2d& window, std::int64_t groups, const Array& x, const Array& w,
              const Array& bias, Array& y);
  bool conv2d_grad_input(const Window2d& window, std::int64_t groups, const Array& w,
                         const Array& dy, Array& dx);
  bool conv2d_grad_weight(const Window2d& window, std::int64_t groups, const Array& x,
                          const Array& dy, Array& dw);

  /// How many there are, refusals apart.
  std::int64_t kernels() const;

 private:
  struct Kernels;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace tandem::host
