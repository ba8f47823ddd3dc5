// The rules of the simulated cuDNN: shapes, types, layouts, algorithms, workspaces, handles, and
// what is reported.
#include "library_test/dnn_support.h"

#include <functional>

using namespace library_test;

namespace {

const float kOne = 1, kZero = 0;

constexpr int kX[4] = {2, 4, 5, 5}, kW[4] = {6, 4, 3, 3}, kY[4] = {2, 6, 5, 5};

// A correct convolution, forward and backward; a test spoils one argument.
struct Call {
  cudnnTensorDescriptor_t xd = tensor(kX), yd = tensor(kY);
  cudnnFilterDescriptor_t wd = filter(kW);
  cudnnConvolutionDescriptor_t descriptor = convolution({1, 1}, {1, 1}, {1, 1}, 1);
  float *x = upload(noise(count(kX), 1)), *w = upload(noise(count(kW), 2));
  float* y = upload(noise(count(kY), 3));
  char* workspace = new_array<char>(100000);
  std::size_t size = 100000;
  const float *alpha = &kOne, *beta = &kZero;
  cudnnConvolutionFwdAlgo_t forward_algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  cudnnConvolutionBwdDataAlgo_t data_algorithm = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  cudnnConvolutionBwdFilterAlgo_t filter_algorithm = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

  cudnnStatus_t forward(cudnnHandle_t h) const {
    return cudnnConvolutionForward(h, alpha, xd, x, wd, w, descriptor, forward_algorithm, workspace,
                                   size, beta, yd, y);
  }
  cudnnStatus_t to_data(cudnnHandle_t h) const {
    return cudnnConvolutionBackwardData(h, alpha, wd, w, yd, y, descriptor, data_algorithm,
                                        workspace, size, beta, xd, x);
  }
  cudnnStatus_t to_filter(cudnnHandle_t h) const {
    return cudnnConvolutionBackwardFilter(h, alpha, xd, x, yd, y, descriptor, filter_algorithm,
                                          workspace, size, beta, wd, w);
  }
  std::size_t needed(cudnnHandle_t h) const {
    std::size_t bytes = 0;
    DNN_OK(cudnnGetConvolutionForwardWorkspaceSize(h, xd, wd, descriptor, yd, forward_algorithm,
                                                   &bytes));
    return bytes;
  }
};

using Spoil = std::function<void(Call&)>;
using Run = cudnnStatus_t (Call::*)(cudnnHandle_t) const;

cudnnStatus_t spoiled(Run run, const Spoil& spoil) {
  cudasim::Session session;
  const Dnn dnn;
  Call call;
  spoil(call);
  const cudnnStatus_t status = (call.*run)(dnn.handle);
  dnn.wait();
  CHECK(cudasim::violations().empty());
  return status;
}

void all_say(cudnnStatus_t expected, const Spoil& spoil) {
  for (Run run : {&Call::forward, &Call::to_data, &Call::to_filter})
    CHECK(spoiled(run, spoil) == expected);
}

std::string reported(Run run, const Spoil& spoil) {
  cudasim::Session session;
  const Dnn dnn;
  Call call;
  spoil(call);
  CHECK((call.*run)(dnn.handle) == CUDNN_STATUS_SUCCESS);
  (void)cudaStreamSynchronize(dnn.stream);
  return only_violation();
}

}  // namespace

TEST_CASE("convolution: shapes that do not fit together are bad parameters") {
  all_say(CUDNN_STATUS_SUCCESS, [](Call&) {});
  const auto bad = [](const Spoil& spoil) { all_say(CUDNN_STATUS_BAD_PARAM, spoil); };
  bad([](Call& c) { c.xd = tensor({2, 3, 5, 5}); });
  bad([](Call& c) { c.xd = tensor({3, 4, 5, 5}); });
  bad([](Call& c) { c.xd = tensor({2, 4, 6, 5}); });
  bad([](Call& c) { c.yd = tensor({2, 5, 5, 5}); });
  bad([](Call& c) { c.yd = tensor({2, 6, 5, 4}); });
  bad([](Call& c) { c.wd = filter({6, 4, 8, 3}); });
  bad([](Call& c) { DNN_OK(cudnnSetConvolutionGroupCount(c.descriptor, 2)); });
  bad([](Call& c) {  // 4 = 1 * 4 channels, but 6 outputs in 4 groups
    c.wd = filter({6, 1, 3, 3});
    DNN_OK(cudnnSetConvolutionGroupCount(c.descriptor, 4));
  });
  bad([](Call& c) { c.xd = nullptr; });
  bad([](Call& c) { DNN_OK(cudnnCreateTensorDescriptor(&c.yd)); });
  bad([](Call& c) { c.x = nullptr; });
  bad([](Call& c) { c.w = nullptr; });
  bad([](Call& c) { c.y = nullptr; });
  bad([](Call& c) { c.alpha = nullptr; });
  bad([](Call& c) { c.beta = nullptr; });
}

TEST_CASE("convolution: combinations of types that are not documented are not supported") {
  const auto f = CUDNN_DATA_FLOAT, h = CUDNN_DATA_HALF, b = CUDNN_DATA_BFLOAT16;
  const auto typed = [](cudnnDataType_t x, cudnnDataType_t w, cudnnDataType_t y,
                        cudnnDataType_t compute) {
    cudasim::Session session;
    const Dnn dnn;
    cudnnConvolutionDescriptor_t c = convolution({1, 1}, {1, 1}, {1, 1}, 1);
    DNN_OK(cudnnSetConvolution2dDescriptor(c, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, compute));
    const auto n = CUDNN_TENSOR_NCHW;
    std::size_t bytes = 0;
    return cudnnGetConvolutionForwardWorkspaceSize(
        dnn.handle, tensor(kX, n, x), filter(kW, n, w), c, tensor(kY, n, y),
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &bytes);
  };
  CHECK(typed(f, f, f, f) == CUDNN_STATUS_SUCCESS);
  CHECK(typed(h, h, h, f) == CUDNN_STATUS_SUCCESS);
  CHECK(typed(b, b, b, f) == CUDNN_STATUS_SUCCESS);
  CHECK(typed(CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE) ==
        CUDNN_STATUS_SUCCESS);
  CHECK(typed(h, f, h, f) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(typed(h, h, f, f) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(typed(h, b, h, f) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(typed(f, f, f, h) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(typed(h, h, h, h) == CUDNN_STATUS_NOT_SUPPORTED);  // documented, but sums in float16
  CHECK(typed(CUDNN_DATA_INT8, CUDNN_DATA_INT8, CUDNN_DATA_INT8, CUDNN_DATA_INT32) ==
        CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("convolution: filters in NHWC want tensors in NHWC; in NCHW they want such a dy") {
  const auto last = CUDNN_TENSOR_NHWC;
  all_say(CUDNN_STATUS_SUCCESS, [&](Call& c) {
    c.xd = tensor(kX, last), c.wd = filter(kW, last), c.yd = tensor(kY, last);
  });
  all_say(CUDNN_STATUS_NOT_SUPPORTED, [&](Call& c) { c.wd = filter(kW, last); });
  all_say(CUDNN_STATUS_NOT_SUPPORTED,
          [&](Call& c) { c.wd = filter(kW, last), c.yd = tensor(kY, last); });
  const Spoil dy_last = [&](Call& c) { c.yd = tensor(kY, last); };
  CHECK(spoiled(&Call::forward, dy_last) == CUDNN_STATUS_SUCCESS);
  CHECK(spoiled(&Call::to_data, dy_last) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(spoiled(&Call::to_filter, dy_last) == CUDNN_STATUS_NOT_SUPPORTED);
  all_say(CUDNN_STATUS_SUCCESS, [&](Call& c) { c.xd = tensor(kX, last); });
}

TEST_CASE("convolution: algorithms that cannot do it, and numbers that are none") {
  CHECK(spoiled(&Call::forward, [](Call& c) {
          c.forward_algorithm = CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;  // not implemented in cuDNN
        }) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(spoiled(&Call::forward, [](Call& c) {
          c.forward_algorithm = CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
          c.descriptor = convolution({2, 2}, {1, 1}, {2, 2}, 1);
        }) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(spoiled(&Call::forward, [](Call& c) {
          c.forward_algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(8);
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(spoiled(&Call::to_filter, [](Call& c) {
          c.filter_algorithm = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD;
        }) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("convolution: algorithms that are not deterministic are reported by name") {
  CHECK(contains(reported(&Call::to_data,
                          [](Call& c) { c.data_algorithm = CUDNN_CONVOLUTION_BWD_DATA_ALGO_0; }),
                 "CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 is not deterministic"));
  for (auto algorithm : {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3})
    CHECK(contains(reported(&Call::to_filter, [&](Call& c) { c.filter_algorithm = algorithm; }),
                   "is not deterministic"));
}

TEST_CASE("algorithms: listed with determinism and workspace; the first is not the one to take") {
  cudasim::Session session;
  const Dnn dnn;
  const Call call;
  int most = 0, returned = 0;
  DNN_OK(cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(dnn.handle, &most));
  REQUIRE(most >= 7);
  std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> all(most);
  DNN_OK(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
      dnn.handle, call.xd, call.yd, call.descriptor, call.wd, most, &returned, all.data()));
  CHECK(returned == 7);
  CHECK(all[0].determinism == CUDNN_NON_DETERMINISTIC);
  int deterministic = 0;
  for (const auto& a : all)
    if (a.status == CUDNN_STATUS_SUCCESS && a.determinism == CUDNN_DETERMINISTIC && a.memory > 0) {
      ++deterministic;
      CHECK(a.algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
      std::size_t bytes = 0;
      DNN_OK(cudnnGetConvolutionBackwardFilterWorkspaceSize(
          dnn.handle, call.xd, call.yd, call.descriptor, call.wd, a.algo, &bytes));
      CHECK(bytes == a.memory);
    }
  CHECK(deterministic == 1);
  DNN_OK(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
      dnn.handle, call.xd, call.yd, call.descriptor, call.wd, 2, &returned, all.data()));
  CHECK(returned == 2);
  cudnnConvolutionFwdAlgoPerf_t forward{};
  DNN_OK(cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, call.xd, call.wd, call.descriptor,
                                                call.yd, 1, &returned, &forward));
  CHECK(forward.status == CUDNN_STATUS_SUCCESS);
  cudnnConvolutionBwdDataAlgoPerf_t data{};
  DNN_OK(cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn.handle, call.wd, call.yd, call.descriptor,
                                                     call.xd, 1, &returned, &data));
  CHECK(data.determinism == CUDNN_NON_DETERMINISTIC);
}

TEST_CASE("workspace: odd, different from shape to shape, refused when smaller or missing") {
  cudasim::Session session;
  const Dnn dnn;
  Call call;
  const std::size_t needed = call.needed(dnn.handle);
  CHECK(needed % 2 == 1);
  CHECK(needed > 1000);
  call.size = needed;
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_SUCCESS);
  call.size = needed - 1;
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
  call.size = needed;
  call.workspace = nullptr;
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
  Call other;
  other.xd = tensor({1, 4, 5, 5});
  other.yd = tensor({1, 6, 5, 5});
  CHECK(other.needed(dnn.handle) != needed);
  dnn.wait();
  CHECK(cudasim::violations().empty());
}

TEST_CASE("workspace: full of NaN afterwards, as far as it was asked for") {
  cudasim::Session session;
  const Dnn dnn;
  Call call;
  const std::size_t needed = call.needed(dnn.handle);
  REQUIRE(cudaMemsetAsync(call.workspace, 0, call.size, dnn.stream) == cudaSuccess);
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_SUCCESS);
  dnn.wait();
  const std::vector<char> bytes = download(call.workspace, call.size);
  CHECK(bytes[0] == '\xff');
  CHECK(bytes[needed - 1] == '\xff');
  CHECK(bytes[needed] == 0);
}

TEST_CASE("convolution: memory is checked when it runs") {
  CHECK(contains(reported(&Call::forward, [](Call& c) { c.y = new_array<float>(299); }),
                 "cudnnConvolutionForward fails: y takes 1200 bytes"));
  CHECK(contains(reported(&Call::to_filter, [](Call& c) { c.y = new_array<float>(300); }),
                 "reads 1200 bytes of dy that nobody has written"));
  CHECK(contains(
      reported(&Call::to_data, [](Call& c) { c.beta = &kOne, c.x = new_array<float>(200); }),
      "reads 800 bytes of dx that nobody has written"));
  CHECK(contains(
      reported(&Call::forward, [](Call& c) { c.y = reinterpret_cast<float*>(c.workspace) + 1; }),
      "the workspace overlaps y"));
  CHECK(contains(reported(&Call::to_data, [](Call& c) { c.x = c.w; }), "dx overlaps w"));
  CHECK(contains(reported(&Call::forward, [](Call& c) { (void)cudaFree(c.w); }),
                 "w uses freed memory"));
}

TEST_CASE("handles: null, destroyed, of another device, without a stream") {
  cudasim::Session session;
  const Call call;
  CHECK(cudnnDestroy(nullptr) == CUDNN_STATUS_SUCCESS);
  CHECK(call.forward(nullptr) == CUDNN_STATUS_BAD_PARAM);
  cudnnHandle_t handle = nullptr;
  DNN_OK(cudnnCreate(&handle));
  CHECK(call.forward(handle) == CUDNN_STATUS_EXECUTION_FAILED);
  CHECK(contains(only_violation(), "default stream"));
  const Dnn dnn;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_EXECUTION_FAILED);
  CHECK(contains(cudasim::violations().back(), "belongs to device 0, but device 1 is current"));
  const cudaStream_t other = new_stream();
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudnnSetStream(dnn.handle, other) == CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  DNN_OK(cudnnDestroy(handle));
  CHECK(cudnnDestroy(handle) == CUDNN_STATUS_BAD_PARAM);
  CHECK(contains(cudasim::violations().back(), "cudnnDestroy: not a live cuDNN handle"));
}

TEST_CASE("descriptors: left over they are leaks, destroyed ones are reported") {
  cudasim::Session session;
  const auto t = tensor(kX);
  const auto c = convolution({1, 1}, {1, 1}, {1, 1}, 1);
  CHECK(cudasim::leaks() ==
        std::vector<std::string>{"cuDNN convolution descriptor #2", "cuDNN tensor descriptor #1"});
  DNN_OK(cudnnDestroyTensorDescriptor(t));
  DNN_OK(cudnnDestroyConvolutionDescriptor(c));
  CHECK(cudasim::leaks().empty());
  std::size_t bytes = 0;
  CHECK(cudnnGetTensorSizeInBytes(t, &bytes) == CUDNN_STATUS_BAD_PARAM);
  CHECK(contains(only_violation(), "not a live cuDNN tensor descriptor"));
}

TEST_CASE("descriptors: may be changed and destroyed when the call has returned") {
  cudasim::Session session;
  const Dnn dnn;
  const Call call;
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_SUCCESS);
  DNN_OK(cudnnSetTensor4dDescriptor(call.xd, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 1, 1, 1, 1));
  DNN_OK(cudnnDestroyFilterDescriptor(call.wd));
  dnn.wait();
  CHECK(cudasim::violations().empty());
}

TEST_CASE("cudnnConvolutionBackwardBias: db has the channels of dy and nothing else") {
  cudasim::Session session;
  const Dnn dnn;
  float *const dy = upload(noise(count(kY), 1)), *const db = new_array<float>(6);
  const auto bias = [&](cudnnTensorDescriptor_t d) {
    return cudnnConvolutionBackwardBias(dnn.handle, &kOne, tensor(kY), dy, &kZero, d, db);
  };
  CHECK(bias(tensor({1, 6, 1, 1})) == CUDNN_STATUS_SUCCESS);
  CHECK(bias(tensor({1, 5, 1, 1})) == CUDNN_STATUS_BAD_PARAM);
  CHECK(bias(tensor({2, 6, 1, 1})) == CUDNN_STATUS_BAD_PARAM);
  CHECK(bias(tensor({1, 6, 1, 1}, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF)) == CUDNN_STATUS_BAD_PARAM);
  CHECK(bias(nullptr) == CUDNN_STATUS_BAD_PARAM);
  dnn.wait();
}

namespace {

// Pooling forward and backward of (1, 2, 4, 4) by windows of two.
struct Pool {
  cudnnPoolingDescriptor_t descriptor =
      pooling(CUDNN_POOLING_MAX_DETERMINISTIC, {2, 2}, {0, 0}, {2, 2});
  cudnnTensorDescriptor_t xd = tensor({1, 2, 4, 4}), yd = tensor({1, 2, 2, 2});
  cudnnTensorDescriptor_t dxd = tensor({1, 2, 4, 4}), dyd = tensor({1, 2, 2, 2});
  float *x = upload(noise(32, 1)), *y = new_array<float>(8);
  float *dx = new_array<float>(32), *dy = upload(noise(8, 2));

  cudnnStatus_t forward(cudnnHandle_t h) const {
    return cudnnPoolingForward(h, descriptor, &kOne, xd, x, &kZero, yd, y);
  }
  cudnnStatus_t backward(cudnnHandle_t h) const {
    return cudnnPoolingBackward(h, descriptor, &kOne, yd, y, dyd, dy, xd, x, &kZero, dxd, dx);
  }
};

}  // namespace

TEST_CASE("pooling: shapes, types and layouts that do not fit are refused") {
  cudasim::Session session;
  const Dnn dnn;
  const auto says = [&](cudnnStatus_t forward, cudnnStatus_t backward,
                        const std::function<void(Pool&)>& spoil) {
    Pool p;
    DNN_OK(p.forward(dnn.handle));
    spoil(p);
    CHECK(p.forward(dnn.handle) == forward);
    CHECK(p.backward(dnn.handle) == backward);
    dnn.wait();
  };
  const auto ok = CUDNN_STATUS_SUCCESS, bad = CUDNN_STATUS_BAD_PARAM;
  says(ok, ok, [](Pool&) {});
  says(bad, bad, [](Pool& p) { p.yd = tensor({1, 2, 2, 3}); });
  says(bad, bad, [](Pool& p) { p.yd = tensor({1, 3, 2, 2}); });
  says(bad, bad, [](Pool& p) { p.yd = tensor({1, 2, 2, 2}, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF); });
  says(ok, bad, [](Pool& p) { p.dyd = tensor({1, 2, 2, 2}, CUDNN_TENSOR_NHWC); });
  says(ok, bad, [](Pool& p) { p.dxd = tensor({1, 2, 4, 4}, CUDNN_TENSOR_NHWC); });
  says(bad, bad, [](Pool& p) { p.x = nullptr; });
  says(CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED, [](Pool& p) {
    p.descriptor = pooling(CUDNN_POOLING_MAX_DETERMINISTIC, {2, 2}, {2, 0}, {2, 2});
  });
  CHECK(cudasim::violations().empty());
}

TEST_CASE("pooling: the gradient of CUDNN_POOLING_MAX, and a y that is not x's, are reported") {
  cudasim::Session session;
  const Dnn dnn;
  Pool p;
  SUBCASE("not deterministic") {
    p.descriptor = pooling(CUDNN_POOLING_MAX, {2, 2}, {0, 0}, {2, 2});
    CHECK(p.forward(dnn.handle) == CUDNN_STATUS_SUCCESS);
    dnn.wait();
    CHECK(cudasim::violations().empty());
    CHECK(p.backward(dnn.handle) == CUDNN_STATUS_SUCCESS);
    CHECK(contains(only_violation(), "CUDNN_POOLING_MAX is not deterministic"));
  }
  SUBCASE("another y") {
    CHECK(p.forward(dnn.handle) == CUDNN_STATUS_SUCCESS);
    p.x = upload(noise(32, 7));
    CHECK(p.backward(dnn.handle) == CUDNN_STATUS_SUCCESS);
    dnn.wait();
    CHECK(contains(only_violation(), "y is not the pooling of x"));
  }
}

TEST_CASE("injection: cuDNN functions are counted and fail by name, with statuses of their own") {
  cudasim::Session session;
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t t = nullptr;
  cudasim::fail_call("cudnnCreate", 1, cudaErrorInitializationError);
  CHECK(cudnnCreate(&handle) == CUDNN_STATUS_NOT_INITIALIZED);
  cudasim::fail_call("cudnnCreateTensorDescriptor", 1, cudaErrorMemoryAllocation);
  CHECK(cudnnCreateTensorDescriptor(&t) == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  CHECK(cudasim::leaks().empty());
  const Dnn dnn;
  const Call call;
  cudasim::fail_call("cudnnConvolutionForward", 1, cudaErrorUnknown);
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_EXECUTION_FAILED);
  cudasim::fail_any_call(1, cudaErrorNotSupported);
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_SUCCESS);
  CHECK(cudasim::calls("cudnnConvolutionForward") == 3);
}

TEST_CASE("cudnnGetLastErrorString: says what the simulator had against the call") {
  cudasim::Session session;
  const Dnn dnn;
  Call call;
  call.xd = tensor({2, 3, 5, 5});
  CHECK(call.forward(dnn.handle) == CUDNN_STATUS_BAD_PARAM);
  char message[256];
  cudnnGetLastErrorString(message, sizeof message);
  CHECK(contains(message, "channels"));
}
