// What the simulated cuDNN computes, against formulas written here: a convolution over an
// explicitly padded input, and gradients as the adjoints of that convolution.
#include "library_test/dnn_support.h"

#include <Eigen/Core>

#include <cmath>
#include <limits>

using namespace library_test;

namespace {

using Numbers = std::vector<double>;

struct Shape {
  int x[4], w[4], y[4], pad[2], stride[2], dilation[2], groups;
};
constexpr Shape kShapes[] = {
    {{1, 1, 3, 3}, {1, 1, 2, 2}, {1, 1, 2, 2}, {0, 0}, {1, 1}, {1, 1}, 1},
    {{2, 3, 5, 4}, {5, 3, 3, 3}, {2, 5, 5, 4}, {1, 1}, {1, 1}, {1, 1}, 1},
    {{1, 2, 7, 6}, {3, 2, 3, 2}, {1, 3, 4, 3}, {1, 0}, {2, 2}, {1, 1}, 1},
    {{2, 4, 6, 6}, {6, 2, 3, 3}, {2, 6, 4, 3}, {1, 2}, {1, 2}, {2, 2}, 2},
    {{1, 5, 4, 4}, {5, 1, 1, 1}, {1, 5, 4, 4}, {0, 0}, {1, 1}, {1, 1}, 5},
    {{1, 3, 4, 9}, {2, 3, 4, 1}, {1, 2, 3, 5}, {1, 0}, {1, 2}, {1, 1}, 1},
};

Numbers wide(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// y of a cross-correlation, read off its definition in a padded copy of x.
Numbers reference(const Shape& s, const Numbers& x, const Numbers& w, bool flipped = false) {
  const int rows = s.x[2] + 2 * s.pad[0], columns = s.x[3] + 2 * s.pad[1];
  Numbers padded(s.x[0] * s.x[1] * rows * columns, 0.0), y;
  for (int plane = 0; plane < s.x[0] * s.x[1]; ++plane)
    for (int h = 0; h < s.x[2]; ++h)
      for (int v = 0; v < s.x[3]; ++v)
        padded[(plane * rows + h + s.pad[0]) * columns + v + s.pad[1]] =
            x[(plane * s.x[2] + h) * s.x[3] + v];
  const int outputs_per_group = s.w[0] / s.groups;
  for (int n = 0; n < s.y[0]; ++n)
    for (int k = 0; k < s.y[1]; ++k)
      for (int p = 0; p < s.y[2]; ++p)
        for (int q = 0; q < s.y[3]; ++q) {
          double sum = 0;
          for (int c = 0; c < s.w[1]; ++c)
            for (int r = 0; r < s.w[2]; ++r)
              for (int t = 0; t < s.w[3]; ++t) {
                const int channel = k / outputs_per_group * s.w[1] + c;
                const int row = p * s.stride[0] + r * s.dilation[0];
                const int column = q * s.stride[1] + t * s.dilation[1];
                const int wr = flipped ? s.w[2] - 1 - r : r, wt = flipped ? s.w[3] - 1 - t : t;
                sum += padded[((n * s.x[1] + channel) * rows + row) * columns + column] *
                       w[((k * s.w[1] + c) * s.w[2] + wr) * s.w[3] + wt];
              }
          y.push_back(sum);
        }
  return y;
}

double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Numbers unit(std::size_t n, std::size_t i) {
  Numbers e(n, 0.0);
  e[i] = 1;
  return e;
}

// dx(i) = <dy, y(unit i, w)>, because y is linear in x; likewise dw.
Numbers adjoint_to_data(const Shape& s, const Numbers& w, const Numbers& dy) {
  Numbers dx;
  for (int i = 0; i < count(s.x); ++i) dx.push_back(dot(dy, reference(s, unit(count(s.x), i), w)));
  return dx;
}
Numbers adjoint_to_filter(const Shape& s, const Numbers& x, const Numbers& dy) {
  Numbers dw;
  for (int i = 0; i < count(s.w); ++i) dw.push_back(dot(dy, reference(s, x, unit(count(s.w), i))));
  return dw;
}

// Both sums are float64, in different orders; the result is rounded once to a type with so many
// mantissa bits.
void check_rounded(const Numbers& got, const Numbers& exact, int mantissa_bits) {
  REQUIRE(got.size() == exact.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double unit_in_last_place =
        exact[i] == 0 ? 0 : std::ldexp(1.0, std::ilogb(exact[i]) - mantissa_bits);
    CAPTURE(i);
    CHECK(std::fabs(got[i] - exact[i]) <= 0.5000001 * unit_in_last_place + 1e-13);
  }
}

template <class T>
void check_all(cudnnDataType_t type, cudnnTensorFormat_t format, int mantissa_bits) {
  const auto stored = [](const Numbers& values) {  // as T holds them
    Numbers out;
    for (double v : values)
      out.push_back(static_cast<float>(static_cast<T>(static_cast<float>(v))));
    return out;
  };
  for (const Shape& s : kShapes) {
    cudasim::Session session;
    const Dnn dnn;
    const ConvolutionRun run{
        dnn, s.x, s.w, s.y, convolution(s.pad, s.stride, s.dilation, s.groups), format, type};
    const Numbers x = stored(wide(noise(count(s.x), 1))), w = stored(wide(noise(count(s.w), 2)));
    const Numbers dy = stored(wide(noise(count(s.y), 3)));
    const auto nothing = [](const int(&d)[4]) { return Numbers(count(d), 3.0); };
    check_rounded(run.forward<T>(x, w, nothing(s.y)), reference(s, x, w), mantissa_bits);
    check_rounded(run.to_data<T>(w, dy, nothing(s.x)), adjoint_to_data(s, w, dy), mantissa_bits);
    check_rounded(run.to_filter<T>(x, dy, nothing(s.w)), adjoint_to_filter(s, x, dy),
                  mantissa_bits);
    CHECK(cudasim::violations().empty());
  }
}

}  // namespace

TEST_CASE("convolution: padding, strides, dilation, groups, odd shapes; float32") {
  check_all<float>(CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 23);
  check_all<float>(CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 23);
}

TEST_CASE("convolution: float16 and bfloat16 are rounded once, from exact sums") {
  check_all<Eigen::half>(CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC, 10);
  check_all<Eigen::half>(CUDNN_DATA_HALF, CUDNN_TENSOR_NCHW, 10);
  check_all<Eigen::bfloat16>(CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_NHWC, 7);
}

TEST_CASE("convolution: CUDNN_CONVOLUTION turns the filter") {
  const Shape& s = kShapes[3];
  cudasim::Session session;
  const Dnn dnn;
  const auto descriptor = convolution(s.pad, s.stride, s.dilation, s.groups, CUDNN_CONVOLUTION);
  const ConvolutionRun run{dnn, s.x, s.w, s.y, descriptor};
  const Numbers x = wide(noise(count(s.x), 1)), w = wide(noise(count(s.w), 2));
  check_rounded(run.forward<float>(x, w, Numbers(count(s.y), 3.0)), reference(s, x, w, true), 23);
}

TEST_CASE("convolution: alpha and beta blend the result into what was there") {
  const Shape& s = kShapes[1];
  cudasim::Session session;
  const Dnn dnn;
  ConvolutionRun run{dnn, s.x, s.w, s.y, convolution(s.pad, s.stride, s.dilation, s.groups)};
  run.alpha = -0.5f;
  run.beta = 2.0f;
  const Numbers x = wide(noise(count(s.x), 1)), w = wide(noise(count(s.w), 2));
  const Numbers before = wide(noise(count(s.y), 4));
  Numbers expected = reference(s, x, w);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = -0.5 * expected[i] + 2 * before[i];
  check_rounded(run.forward<float>(x, w, before), expected, 23);
}

TEST_CASE("convolution: the default math type rounds float32 to TF32, CUDNN_FMA_MATH does not") {
  cudasim::Session session;
  const Dnn dnn;
  const int one[4] = {1, 1, 1, 1};
  const auto descriptor = convolution({0, 0}, {1, 1}, {1, 1}, 1);
  const ConvolutionRun run{dnn, one, one, one, descriptor};
  const double fine = 1 + std::ldexp(1.0, -12);
  CHECK(run.forward<float>({fine}, {1}, {0}).front() == fine);
  DNN_OK(cudnnSetConvolutionMathType(descriptor, CUDNN_DEFAULT_MATH));
  CHECK(run.forward<float>({fine}, {1}, {0}).front() == 1);
  CHECK(run.to_data<float>({fine}, {1}, {0}).front() == 1);
  CHECK(run.to_filter<float>({1}, {fine}, {0}).front() == 1);
}

TEST_CASE("convolution: a strided view is read and written where it lies") {
  cudasim::Session session;
  const Dnn dnn;
  const int x_dims[4] = {2, 2, 3, 3}, w_dims[4] = {1, 2, 3, 3}, y_dims[4] = {2, 1, 1, 1};
  cudnnTensorDescriptor_t xd = nullptr;
  DNN_OK(cudnnCreateTensorDescriptor(&xd));
  DNN_OK(cudnnSetTensor4dDescriptorEx(xd, CUDNN_DATA_FLOAT, 2, 2, 3, 3, 40, 15, 5, 1));
  const Numbers x = wide(noise(count(x_dims), 1)), w = wide(noise(count(w_dims), 2));
  std::vector<float> placed(68, std::nanf(""));  // (2-1) 40 + (2-1) 15 + (3-1) 5 + (3-1) + 1
  for (int i = 0; i < count(x_dims); ++i)
    placed[i / 18 * 40 + i / 9 % 2 * 15 + i / 3 % 3 * 5 + i % 3] = static_cast<float>(x[i]);
  const auto wd = filter(w_dims);
  const auto yd = tensor(y_dims);
  const auto descriptor = convolution({0, 0}, {1, 1}, {1, 1}, 1);
  const float alpha = 1, beta = 0;
  const auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  std::size_t bytes = 0;
  DNN_OK(cudnnGetConvolutionForwardWorkspaceSize(dnn.handle, xd, wd, descriptor, yd, algorithm,
                                                 &bytes));
  float* const y = new_array<float>(2);
  DNN_OK(cudnnConvolutionForward(dnn.handle, &alpha, xd, upload(placed), wd,
                                 upload(arrange<float>(w, w_dims, CUDNN_TENSOR_NCHW)), descriptor,
                                 algorithm, new_array<char>(bytes), bytes, &beta, yd, y));
  dnn.wait();
  const Shape s{{2, 2, 3, 3}, {1, 2, 3, 3}, {2, 1, 1, 1}, {0, 0}, {1, 1}, {1, 1}, 1};
  check_rounded(wide(download(y, 2)), reference(s, x, w), 23);
}

namespace {

std::vector<float> pool(cudnnPoolingMode_t mode, cudnnNanPropagation_t nan,
                        const std::vector<float>& x) {  // one row, windows of two
  const Dnn dnn;
  const int n = static_cast<int>(x.size());
  const float one = 1, zero = 0;
  float* const y = new_array<float>(n / 2);
  DNN_OK(cudnnPoolingForward(dnn.handle, pooling(mode, {1, 2}, {0, 0}, {1, 2}, nan), &one,
                             tensor({1, 1, 1, n}), upload(x), &zero, tensor({1, 1, 1, n / 2}), y));
  dnn.wait();
  return download(y, n / 2);
}

}  // namespace

TEST_CASE("pooling: NaN is propagated or passed over, as the descriptor says") {
  cudasim::Session session;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto kept = pool(CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, {nan, 1, 2, nan, 3, 4});
  CHECK(std::isnan(kept[0]));
  CHECK(std::isnan(kept[1]));
  CHECK(kept[2] == 4);
  const auto dropped = pool(CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, {nan, 1, 2, nan, 3, 4});
  CHECK(dropped == std::vector<float>{1, 2, 4});
}

TEST_CASE("pooling: of equal maxima the first gets the gradient; overlapping windows add up") {
  cudasim::Session session;
  const Dnn dnn;
  const float one = 1, zero = 0;
  const auto descriptor = pooling(CUDNN_POOLING_MAX_DETERMINISTIC, {1, 2}, {0, 0}, {1, 1});
  const auto xd = tensor({1, 1, 1, 4}), yd = tensor({1, 1, 1, 3});
  float* const x = upload<float>({5, 5, 1, 1});
  float *const y = new_array<float>(3), *const dx = new_array<float>(4);
  DNN_OK(cudnnPoolingForward(dnn.handle, descriptor, &one, xd, x, &zero, yd, y));
  DNN_OK(cudnnPoolingBackward(dnn.handle, descriptor, &one, yd, y, yd, upload<float>({1, 10, 100}),
                              xd, x, &zero, xd, dx));
  dnn.wait();
  CHECK(download(y, 3) == std::vector<float>{5, 5, 1});
  CHECK(download(dx, 4) == std::vector<float>{1, 10, 100, 0});
}

TEST_CASE("cudnnAddTensor: a bias per channel is added to every sample") {
  cudasim::Session session;
  const Dnn dnn;
  const float one = 1;
  float* const y = upload<float>({0, 1, 2, 3, 4, 5, 6, 7});
  DNN_OK(cudnnAddTensor(dnn.handle, &one, tensor({1, 2, 1, 1}), upload<float>({10, 20}), &one,
                        tensor({2, 2, 1, 2}), y));
  dnn.wait();
  CHECK(download(y, 8) == std::vector<float>{10, 11, 22, 23, 14, 15, 26, 27});
}
