// One primitive of oneDNN: a convolution, one of its gradients, or a matrix product in 16 bits; how
// it is described (the one place where versions 2 and 3 differ), and how it is run.
//
// Seen by onednn.cpp and nobody else, which keeps the kernels that are made here.
#pragma once

#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/window.h>

namespace tandem::host {

const dnnl::engine& onednn_engine();

// Note [One thread per call]
//   oneDNN asks OpenMP how many threads there are, when it makes a kernel and when it runs one, and
//   a team of them inside every small call would fight with the other replicas' threads. OpenMP has
//   one number per calling thread, which belongs to the user: it is set to 1 and put back. With 1
//   no team is started. The two functions are those of the runtime that oneDNN itself has loaded
//   (it may be none), so nothing of OpenMP is needed to build Tandem.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// What the kernel of a convolution depends on. x and y lie in `images`, w as its strides say.
struct Convolution {
  enum Operation { forward, grad_input, grad_weight } operation;
  Window2d window;
  std::int64_t groups;
  DType dtype;
  MemoryFormat images;
  Shape x, w, y, w_strides;
  bool biased;

  std::vector<std::int64_t> key() const;
};

// A primitive and its operands: x and y, w (as it lies, and as the primitive wants it), bias and
// workspace. Only addresses change from call to call. No primitive: oneDNN has none that is quick.
struct Kernel {
  dnnl::primitive compute{}, repack{};
  dnnl::memory x{}, w{}, packed{}, bias{}, y{}, scratch{}, repack_scratch{};
  bool w_is_result = false;
  std::unordered_map<int, dnnl::memory> arguments{};

  explicit operator bool() const { return bool(compute); }
  void run(const dnnl::stream& stream, const Array& x_values, const Array& w_values,
           const Array& bias_values, const Array& y_values);
};

// These throw dnnl::error where oneDNN has no primitive at all.
Kernel make_kernel(const Convolution& c);
/// c = a b, or c += a b; a (B, M, K), b (B, K, N), c (B, M, N), with any strides.
Kernel make_kernel(const Array& a, const Array& b, const Array& c, bool accumulate);
std::vector<std::int64_t> product_key(const Array& a, const Array& b, const Array& c,
                                      bool accumulate);

}  // namespace tandem::host
