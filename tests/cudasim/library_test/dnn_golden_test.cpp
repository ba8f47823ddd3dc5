// The simulated cuDNN against PyTorch's numbers. The inputs are multiples of 1/64 and the sums
// short: all results are exact in float32, and have to be equal.
#include "library_test/dnn_support.h"
#include "library_test/golden_dnn.h"

using namespace library_test;

namespace {

// As pattern() of tests/golden/make_dnn.py.
std::vector<double> pattern(int seed, int n) {
  std::vector<double> values(n);
  for (int i = 0; i < n; ++i) values[i] = ((i * 37 + seed * 11) % 101 - 50) / 64.0;
  return values;
}

std::vector<double> nothing(int n) {
  return std::vector<double>(n, 1e30);
}

}  // namespace

TEST_CASE("convolution: result and gradients are PyTorch's, in both formats") {
  for (const golden::Convolution& g : golden::kConvolutions)
    for (cudnnTensorFormat_t format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
      cudasim::Session session;
      const Dnn dnn;
      const ConvolutionRun run{
          dnn, g.x, g.w, g.y, convolution(g.pad, g.stride, g.dilation, g.groups), format};
      const auto x = pattern(1, count(g.x)), w = pattern(2, count(g.w)),
                 dy = pattern(3, count(g.y));
      CHECK(run.forward<float>(x, w, nothing(count(g.y))) == g.values);
      CHECK(run.to_data<float>(w, dy, nothing(count(g.x))) == g.dx);
      CHECK(run.to_filter<float>(x, dy, nothing(count(g.w))) == g.dw);

      const float one = 1, zero = 0;
      float* const db = new_array<float>(g.y[1]);
      DNN_OK(cudnnConvolutionBackwardBias(dnn.handle, &one, tensor(g.y, format),
                                          upload(arrange<float>(dy, g.y, format)), &zero,
                                          tensor({1, g.y[1], 1, 1}, format), db));
      dnn.wait();
      const std::vector<float> got = download(db, g.y[1]);
      CHECK(std::vector<double>(got.begin(), got.end()) == g.db);
      CHECK(cudasim::violations().empty());
    }
}

TEST_CASE("pooling: result and gradient are PyTorch's, in both formats") {
  for (const golden::Pooling& g : golden::kPoolings)
    for (cudnnTensorFormat_t format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
      CAPTURE(g.mode);
      cudasim::Session session;
      const Dnn dnn;
      const auto xd = tensor(g.x, format), yd = tensor(g.y, format);
      const auto descriptor = pooling(g.mode, g.window, g.pad, g.stride);
      const float one = 1, zero = 0;
      float* const x = upload(arrange<float>(pattern(1, count(g.x)), g.x, format));
      float* const dy = upload(arrange<float>(pattern(3, count(g.y)), g.y, format));
      float *const y = new_array<float>(count(g.y)), *const dx = new_array<float>(count(g.x));
      DNN_OK(cudnnPoolingForward(dnn.handle, descriptor, &one, xd, x, &zero, yd, y));
      DNN_OK(
          cudnnPoolingBackward(dnn.handle, descriptor, &one, yd, y, yd, dy, xd, x, &zero, xd, dx));
      dnn.wait();
      // Averages over 3 or 6 elements end nowhere: rounded as a float is.
      const auto close = [&](const std::vector<double>& got, const std::vector<double>& expected) {
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-7));
      };
      close(arrange<double>(download(y, count(g.y)), g.y, format, true), g.values);
      close(arrange<double>(download(dx, count(g.x)), g.x, format, true), g.dx);
      CHECK(cudasim::violations().empty());
    }
}
