// The rules of cuDNN's descriptors: the real libcudnn, whose descriptor functions need no driver,
// and the simulated one are asked the same questions. Left out are null pointers for results and
// poolings that were never set, at which the real one crashes, and types that only vectors of
// integers use.
#include "library_test/real_library.h"
#include "library_test/support.h"

#include <cudnn.h>

#include <climits>
#include <optional>

using namespace library_test;

namespace {

// Where a failed call leaves a result untouched, or half-written, the numbers mean nothing.
using Answer = std::vector<long long>;

const RealLibrary& real_library() {
  static const RealLibrary real("libcudnn.so." + std::to_string(CUDNN_MAJOR));
  return real;
}

// The functions of one of the two libraries.
#define FUNCTIONS(F)                       \
  F(cudnnCreateTensorDescriptor)           \
  F(cudnnDestroyTensorDescriptor)          \
  F(cudnnSetTensor4dDescriptor)            \
  F(cudnnSetTensor4dDescriptorEx)          \
  F(cudnnSetTensorNdDescriptor)            \
  F(cudnnSetTensorNdDescriptorEx)          \
  F(cudnnGetTensor4dDescriptor)            \
  F(cudnnGetTensorNdDescriptor)            \
  F(cudnnGetTensorSizeInBytes)             \
  F(cudnnCreateFilterDescriptor)           \
  F(cudnnDestroyFilterDescriptor)          \
  F(cudnnSetFilter4dDescriptor)            \
  F(cudnnSetFilterNdDescriptor)            \
  F(cudnnGetFilter4dDescriptor)            \
  F(cudnnGetFilterSizeInBytes)             \
  F(cudnnCreateConvolutionDescriptor)      \
  F(cudnnDestroyConvolutionDescriptor)     \
  F(cudnnSetConvolution2dDescriptor)       \
  F(cudnnGetConvolution2dDescriptor)       \
  F(cudnnSetConvolutionGroupCount)         \
  F(cudnnGetConvolutionGroupCount)         \
  F(cudnnSetConvolutionMathType)           \
  F(cudnnGetConvolutionMathType)           \
  F(cudnnGetConvolution2dForwardOutputDim) \
  F(cudnnCreatePoolingDescriptor)          \
  F(cudnnDestroyPoolingDescriptor)         \
  F(cudnnSetPooling2dDescriptor)           \
  F(cudnnGetPooling2dDescriptor)           \
  F(cudnnGetPooling2dForwardOutputDim)     \
  F(cudnnCreateActivationDescriptor)       \
  F(cudnnDestroyActivationDescriptor)      \
  F(cudnnSetActivationDescriptor)          \
  F(cudnnGetActivationDescriptor)          \
  F(cudnnGetErrorString)                   \
  F(cudnnGetVersion)

struct Library {
#define FIELD(name) decltype(&::name) name##_;
  FUNCTIONS(FIELD)
#undef FIELD
};

Library simulated() {
#define TAKE(name) ::name,
  return {FUNCTIONS(TAKE)};
#undef TAKE
}

Library real() {
#define FIND(name) real_library().get<decltype(::name)>(#name),
  return {FUNCTIONS(FIND)};
#undef FIND
}

std::string text(const Answer& answer) {
  std::string out;
  for (long long number : answer) out += std::to_string(number) + " ";
  return out;
}

// Asks both libraries; `question` returns what they answered.
template <class Question>
void compare(const char* title, int n, Question&& question) {
  cudasim::Session session;
  if (!real_library().found()) return;
  const Library ours = simulated(), theirs = real();
  for (int i = 0; i < n; ++i) {
    INFO(std::string(title) << ", question " << i);
    std::mt19937 one(i), other(i);
    CHECK(text(question(ours, one)) == text(question(theirs, other)));
  }
  CHECK(cudasim::violations().empty());
}

// One of the numbers given; the first ones are drawn more often.
int pick(std::mt19937& random, const std::vector<int>& numbers) {
  const std::size_t i = random() % numbers.size(), j = random() % numbers.size();
  return numbers[std::min(i, j)];
}

cudnnDataType_t some_type(std::mt19937& random) {
  return static_cast<cudnnDataType_t>(
      pick(random, {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_DOUBLE,
                    CUDNN_DATA_INT8, CUDNN_DATA_INT32, CUDNN_DATA_UINT8, CUDNN_DATA_INT64,
                    CUDNN_DATA_BOOLEAN, CUDNN_DATA_FP8_E4M3, 99, -1}));
}

cudnnTensorFormat_t some_format(std::mt19937& random) {
  return static_cast<cudnnTensorFormat_t>(
      pick(random, {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NHWC, 3}));
}

int some_extent(std::mt19937& random) {
  return pick(random, {3, 1, 4, 5, 2, 7, 16, 1, 33, 0, -1, 70000, INT_MAX});
}

struct Tensor {
  const Library& library;
  cudnnTensorDescriptor_t handle = nullptr;
  explicit Tensor(const Library& l) : library(l) { l.cudnnCreateTensorDescriptor_(&handle); }
  ~Tensor() { library.cudnnDestroyTensorDescriptor_(handle); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  Answer describe() const {
    cudnnDataType_t type{};
    int rank = 0, dims[CUDNN_DIM_MAX] = {}, strides[CUDNN_DIM_MAX] = {};
    std::size_t size = 0;
    Answer a{
        library.cudnnGetTensorNdDescriptor_(handle, CUDNN_DIM_MAX, &type, &rank, dims, strides),
        library.cudnnGetTensorSizeInBytes_(handle, &size)};
    a.insert(a.end(), {type, rank, static_cast<long long>(size)});
    a.insert(a.end(), dims, dims + rank);
    a.insert(a.end(), strides, strides + rank);
    if (rank != 4) return a;
    int d[4], s[4];
    a.push_back(library.cudnnGetTensor4dDescriptor_(handle, &type, d, d + 1, d + 2, d + 3, s, s + 1,
                                                    s + 2, s + 3));
    a.insert(a.end(), d, d + 4);
    a.insert(a.end(), s, s + 4);
    return a;
  }
};

struct Filter {
  const Library& library;
  cudnnFilterDescriptor_t handle = nullptr;
  explicit Filter(const Library& l) : library(l) { l.cudnnCreateFilterDescriptor_(&handle); }
  ~Filter() { library.cudnnDestroyFilterDescriptor_(handle); }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  Answer describe() const {
    cudnnDataType_t type{};
    cudnnTensorFormat_t format{};
    int d[4];
    std::size_t size = 0;
    Answer a{library.cudnnGetFilter4dDescriptor_(handle, &type, &format, d, d + 1, d + 2, d + 3),
             library.cudnnGetFilterSizeInBytes_(handle, &size)};
    a.insert(a.end(), {type, format, d[0], d[1], d[2], d[3], static_cast<long long>(size)});
    return a;
  }
};

struct Convolution {
  const Library& library;
  cudnnConvolutionDescriptor_t handle = nullptr;
  explicit Convolution(const Library& l) : library(l) {
    l.cudnnCreateConvolutionDescriptor_(&handle);
  }
  ~Convolution() { library.cudnnDestroyConvolutionDescriptor_(handle); }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  Answer describe() const {
    int p[6], groups = 0;
    cudnnConvolutionMode_t mode{};
    cudnnDataType_t type{};
    cudnnMathType_t math{};
    Answer a{library.cudnnGetConvolution2dDescriptor_(handle, p, p + 1, p + 2, p + 3, p + 4, p + 5,
                                                      &mode, &type),
             library.cudnnGetConvolutionGroupCount_(handle, &groups),
             library.cudnnGetConvolutionMathType_(handle, &math)};
    a.insert(a.end(), p, p + 6);
    a.insert(a.end(), {mode, type, groups, math});
    return a;
  }
};

struct Pooling {
  const Library& library;
  cudnnPoolingDescriptor_t handle = nullptr;
  explicit Pooling(const Library& l) : library(l) { l.cudnnCreatePoolingDescriptor_(&handle); }
  ~Pooling() { library.cudnnDestroyPoolingDescriptor_(handle); }
  Pooling(const Pooling&) = delete;
  Pooling& operator=(const Pooling&) = delete;

  Answer describe() const {
    cudnnPoolingMode_t mode{};
    cudnnNanPropagation_t nan{};
    int p[6];
    Answer a{library.cudnnGetPooling2dDescriptor_(handle, &mode, &nan, p, p + 1, p + 2, p + 3,
                                                  p + 4, p + 5)};
    a.insert(a.end(), {mode, nan});
    a.insert(a.end(), p, p + 6);
    return a;
  }
};

// The status of a setter, and, if it worked, what the descriptor says then.
template <class Descriptor>
Answer after(cudnnStatus_t status, const Descriptor& descriptor) {
  Answer a{status};
  if (status != CUDNN_STATUS_SUCCESS) return a;
  const Answer rest = descriptor.describe();
  a.insert(a.end(), rest.begin(), rest.end());
  return a;
}

// The status of a question for four extents, and, if it worked, the extents.
Answer extents(cudnnStatus_t status, const int (&d)[4]) {
  Answer a{status};
  if (status == CUDNN_STATUS_SUCCESS) a.insert(a.end(), d, d + 4);
  return a;
}

}  // namespace

TEST_CASE("cuDNN: fresh descriptors are as in the real library, and null ones") {
  compare("fresh", 1, [](const Library& l, std::mt19937&) {
    Answer a = Tensor(l).describe();
    for (const Answer& more :
         {Filter(l).describe(), Convolution(l).describe(), Pooling(l).describe()})
      a.insert(a.end(), more.begin(), more.end());
    a.push_back(l.cudnnCreateTensorDescriptor_(nullptr));
    a.push_back(l.cudnnDestroyTensorDescriptor_(nullptr));
    a.push_back(l.cudnnDestroyFilterDescriptor_(nullptr));
    a.push_back(l.cudnnDestroyConvolutionDescriptor_(nullptr));
    a.push_back(l.cudnnDestroyPoolingDescriptor_(nullptr));
    a.push_back(l.cudnnDestroyActivationDescriptor_(nullptr));
    a.push_back(
        l.cudnnSetTensor4dDescriptor_(nullptr, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    a.push_back(l.cudnnSetConvolutionGroupCount_(nullptr, 1));
    return a;
  });
}

TEST_CASE("cuDNN: tensor descriptors take and refuse what the real library does") {
  compare("4d", 3000, [](const Library& l, std::mt19937& random) {
    const Tensor t(l);
    int d[4];
    for (int& e : d) e = some_extent(random);
    return after(l.cudnnSetTensor4dDescriptor_(t.handle, some_format(random), some_type(random),
                                               d[0], d[1], d[2], d[3]),
                 t);
  });
  compare("4d with strides", 3000, [](const Library& l, std::mt19937& random) {
    const Tensor t(l);
    int d[4], s[4];
    for (int& e : d) e = some_extent(random);
    for (int& e : s) e = pick(random, {1, 7, 100, 12, 60, 5, 3, 1 << 20, -3, 0, INT_MAX, 1 << 30});
    return after(l.cudnnSetTensor4dDescriptorEx_(t.handle, some_type(random), d[0], d[1], d[2],
                                                 d[3], s[0], s[1], s[2], s[3]),
                 t);
  });
  compare("Nd", 3000, [](const Library& l, std::mt19937& random) {
    const Tensor t(l);
    int d[9], s[9];
    for (int& e : d) e = pick(random, {2, 3, 1, 4, 5, 1, 0});
    for (int& e : s) e = pick(random, {1, 7, 100, 12, 60, 5, -2, 0});
    const int rank = pick(random, {4, 5, 3, 2, 8, 9, 1, 0});
    const cudnnDataType_t type = some_type(random);
    const cudnnTensorFormat_t format = some_format(random);
    if (random() % 2) return after(l.cudnnSetTensorNdDescriptor_(t.handle, type, rank, d, s), t);
    if (rank == 2) return Answer{};  // channels last: the real library makes up a stride
    return after(l.cudnnSetTensorNdDescriptorEx_(t.handle, format, type, rank, d), t);
  });
}

TEST_CASE("cuDNN: the largest tensors that the real library takes, and the first it does not") {
  compare("limits", 1, [](const Library& l, std::mt19937&) {
    Answer a;
    const auto strided = [&](int n, int stride) {
      const Tensor t(l);
      const Answer more = after(
          l.cudnnSetTensor4dDescriptorEx_(t.handle, CUDNN_DATA_HALF, n, 1, 1, 1, stride, 1, 1, 1),
          t);
      a.insert(a.end(), more.begin(), more.end());
    };
    strided(2, INT_MAX - 1);
    strided(2, INT_MAX);
    strided(3, INT_MAX / 2);
    strided(3, INT_MAX / 2 + 1);
    const auto packed = [&](int n, int c) {
      const Tensor t(l);
      const Answer more = after(
          l.cudnnSetTensor4dDescriptor_(t.handle, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, n, c, 1, 1),
          t);
      a.insert(a.end(), more.begin(), more.end());
    };
    packed(1 << 15, (1 << 16) - 1);
    packed(1 << 15, 1 << 16);
    packed(1, INT_MAX);
    return a;
  });
}

TEST_CASE("cuDNN: filter descriptors take and refuse what the real library does") {
  compare("4d", 3000, [](const Library& l, std::mt19937& random) {
    const Filter f(l);
    int d[4];
    for (int& e : d) e = pick(random, {3, 1, 4, 5, 2, 7, 16, 1, 33, 0, -1, 700});
    return after(l.cudnnSetFilter4dDescriptor_(f.handle, some_type(random), some_format(random),
                                               d[0], d[1], d[2], d[3]),
                 f);
  });
  compare("Nd", 1000, [](const Library& l, std::mt19937& random) {
    const Filter f(l);
    int d[9];
    for (int& e : d) e = pick(random, {2, 3, 1, 4, 0});
    const int rank = pick(random, {4, 3, 5, 8, 9, 2, 1, 0});
    const Answer a{
        l.cudnnSetFilterNdDescriptor_(f.handle, some_type(random), some_format(random), rank, d)};
    return a;
  });
}

TEST_CASE("cuDNN: convolution descriptors take and refuse what the real library does") {
  compare("convolution", 3000, [](const Library& l, std::mt19937& random) {
    const Convolution c(l);
    int p[6];
    for (int i = 0; i < 6; ++i)
      p[i] = i < 2 ? pick(random, {0, 1, 2, 5, -1}) : pick(random, {1, 2, 3, 4, 0, -1});
    const int mode = pick(random, {CUDNN_CROSS_CORRELATION, CUDNN_CONVOLUTION, 2});
    const int groups = pick(random, {1, 2, 3, 0, -2}), math = pick(random, {0, 3, 1, 2, 4, -1});
    Answer a{l.cudnnSetConvolutionGroupCount_(c.handle, groups),
             l.cudnnSetConvolutionMathType_(c.handle, static_cast<cudnnMathType_t>(math))};
    const Answer more = after(l.cudnnSetConvolution2dDescriptor_(
                                  c.handle, p[0], p[1], p[2], p[3], p[4], p[5],
                                  static_cast<cudnnConvolutionMode_t>(mode), some_type(random)),
                              c);
    a.insert(a.end(), more.begin(), more.end());
    return a;
  });
}

TEST_CASE("cuDNN: a convolution's output has the real library's shape") {
  compare("output", 5000, [](const Library& l, std::mt19937& random) {
    const Convolution c(l);
    const Tensor x(l);
    const Filter w(l);
    const int groups = pick(random, {1, 1, 2, 3}), channels = pick(random, {1, 2, 3, 4});
    const int given = random() % 8 ? channels * groups : channels + 1;
    l.cudnnSetConvolution2dDescriptor_(
        c.handle, pick(random, {0, 1, 2, 3}), pick(random, {0, 1, 2, 3}),
        pick(random, {1, 2, 3, 4}), pick(random, {1, 2, 3, 4}), pick(random, {1, 2, 3}),
        pick(random, {1, 2, 3}), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    l.cudnnSetConvolutionGroupCount_(c.handle, groups);
    if (random() % 32)
      l.cudnnSetTensor4dDescriptor_(x.handle, some_format(random), CUDNN_DATA_FLOAT,
                                    pick(random, {1, 2, 5}), given, 1 + random() % 12,
                                    1 + random() % 12);
    if (random() % 32)
      l.cudnnSetFilter4dDescriptor_(w.handle, CUDNN_DATA_FLOAT, some_format(random),
                                    1 + random() % 7, channels, 1 + random() % 6, 1 + random() % 6);
    int d[4];
    return extents(l.cudnnGetConvolution2dForwardOutputDim_(c.handle, x.handle, w.handle, d, d + 1,
                                                            d + 2, d + 3),
                   d);
  });
}

TEST_CASE("cuDNN: pooling descriptors and their outputs are those of the real library") {
  compare("pooling", 5000, [](const Library& l, std::mt19937& random) {
    const Pooling p(l);
    const Tensor x(l);
    int v[6];
    for (int i = 0; i < 6; ++i)
      v[i] = i / 2 == 1 ? pick(random, {0, 1, 2, 5, -1}) : pick(random, {2, 3, 1, 4, 7, 0, -1});
    const int mode = pick(random, {3, 0, 1, 2, 4, -1}), nan = pick(random, {1, 0, 2});
    Answer a = after(l.cudnnSetPooling2dDescriptor_(p.handle, static_cast<cudnnPoolingMode_t>(mode),
                                                    static_cast<cudnnNanPropagation_t>(nan), v[0],
                                                    v[1], v[2], v[3], v[4], v[5]),
                     p);
    l.cudnnSetTensor4dDescriptor_(x.handle, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 2, 3,
                                  1 + random() % 9, 1 + random() % 9);
    if (a.front() != CUDNN_STATUS_SUCCESS) return a;  // the real library divides by a stride of 0
    int d[4];
    const Answer more = extents(
        l.cudnnGetPooling2dForwardOutputDim_(p.handle, x.handle, d, d + 1, d + 2, d + 3), d);
    a.insert(a.end(), more.begin(), more.end());
    return a;
  });
}

TEST_CASE("cuDNN: activation descriptors take and refuse what the real library does") {
  compare("activation", 40, [](const Library& l, std::mt19937& random) {
    cudnnActivationDescriptor_t d = nullptr;
    l.cudnnCreateActivationDescriptor_(&d);
    cudnnActivationMode_t mode{};
    cudnnNanPropagation_t nan{};
    double coefficient = -1;
    Answer a{l.cudnnSetActivationDescriptor_(
        d, static_cast<cudnnActivationMode_t>(static_cast<int>(random() % 10) - 1),
        static_cast<cudnnNanPropagation_t>(random() % 3), 1.5)};
    if (a.front() == CUDNN_STATUS_SUCCESS) {
      a.push_back(l.cudnnGetActivationDescriptor_(d, &mode, &nan, &coefficient));
      a.insert(a.end(), {mode, nan, static_cast<long long>(coefficient * 10)});
    }
    a.push_back(l.cudnnDestroyActivationDescriptor_(d));
    return a;
  });
}

TEST_CASE("cuDNN: the version and the words for the statuses in use are the real library's") {
  if (!real_library().found()) return;
  const Library theirs = real();
  CHECK(theirs.cudnnGetVersion_() / 10000 == cudnnGetVersion() / 10000);
  for (int i : {0, 1001, 2000, 2002, 2006, 2007, 2008, 3000, 3002, 3003, 3004, 4000, 4003, 4004,
                5000, 5003, 77}) {
    const auto status = static_cast<cudnnStatus_t>(i);
    CHECK(std::string(theirs.cudnnGetErrorString_(status)) == cudnnGetErrorString(status));
  }
}
