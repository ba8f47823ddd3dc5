// Compiled instead of onednn.cpp where oneDNN was not found: it declines everything.
#include <tandem/core/cpu/onednn.h>

namespace tandem::host {

struct OneDnn::Kernels {};
OneDnn::OneDnn() = default;
OneDnn::~OneDnn() = default;
std::int64_t OneDnn::kernels() const {
  return 0;
}
bool OneDnn::gemm(const Array&, const Array&, Array&, bool) {
  return false;
}
bool OneDnn::conv2d(const Window2d&, std::int64_t, const Array&, const Array&, const Array&,
                    Array&) {
  return false;
}
bool OneDnn::conv2d_grad_input(const Window2d&, std::int64_t, const Array&, const Array&, Array&) {
  return false;
}
bool OneDnn::conv2d_grad_weight(const Window2d&, std::int64_t, const Array&, const Array&, Array&) {
  return false;
}
bool onednn_takes(const Matrix<float>&, const Matrix<float>&) {
  return false;
}
bool onednn_is_thin(std::int64_t, std::int64_t) {
  return false;
}
bool onednn_has_avx512() {
  return false;
}
Array onednn_spread(Device, Matrix<float>&, const Matrix<float>&) {
  return {};
}
bool onednn_product(const Matrix<float>&, const Matrix<float>&, float*, std::int64_t, bool) {
  return false;
}

}  // namespace tandem::host
