// The CUDA backend: one object per logical device, several of which may share a GPU. It mirrors
// cpu/ file by file: a family's method is host code in <family>.cpp, its kernels are in
// kernels/<family>.cu with thin launchers that take plain pointers, sizes and a stream.
//
// All work of a logical device goes onto its compute stream, so order within a device needs no
// events; between devices copy.cpp makes the edges. Kernels are launched through launch() only.
// Thread safety: any thread may call; what one thread submits after another is ordered after it.
// Next: check.h (errors), streams.h (events and memory in stream order).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include <tandem/core/backend.h>
#include <tandem/core/cuda/check.h>

namespace tandem {

class CudaBackend final : public Backend {
 public:
  CudaBackend(Device device, int gpu, std::int64_t memory_limit);
  ~CudaBackend() override;

  /// The physical device.
  int gpu() const { return gpu_; }
  /// How many multiprocessors it has: a grid of a few blocks for each fills it.
  int multiprocessors() const { return multiprocessors_; }
  /// What this thread's work goes onto.
  cudaStream_t stream();

  /// Calls f(stream), which launches kernels, with this device current; throws DeviceError naming
  /// `kernel` if a launch was refused.
  template <class F>
  void launch(const char* kernel, F&& f) {
    const gpu::OnDevice on(gpu_);
    f(stream());
    gpu::check_status(cudaGetLastError(), kernel, device());
  }

  void* raw_allocate(std::size_t bytes) override;
  void raw_free(void* data) noexcept override;

  Stream current_stream() override { return {device(), stream()}; }
  void synchronize() override;

  void copy_from_host(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void copy_from_device(void* to, Backend& source, const void* from, std::int64_t bytes) override;

  void copy(const Array& x, Array& y) override;
  void cast(const Array& x, Array& y) override;
  void fill(Array& y, double value) override;

  void map(MapOp op, Scalars s, const Array& x, Array& y) override;
  void map_grad(MapOp op, Scalars s, const Array& saved, const Array& dy, Array& dx) override;
  void zip(ZipOp op, const Array& a, const Array& b, Array& y) override;
  void zip_grad(ZipOp op, int operand, const Array& a, const Array& b, const Array& dy,
                Array& dx) override;
  void where(const Array& condition, const Array& a, const Array& b, Array& y) override;

  void reduce(ReduceOp op, const Array& x, Array& y) override;
  void arg_reduce(bool largest, const Array& x, int dim, Array& y) override;

  void gemm(const Array& a, const Array& b, Array& c, bool accumulate) override;

  void conv2d(const Window2d& window, std::int64_t groups, const Array& x, const Array& w,
              const Array& bias, Array& y) override;
  void conv2d_grad_input(const Window2d& window, std::int64_t groups, const Array& w,
                         const Array& dy, Array& dx) override;
  void conv2d_grad_weight(const Window2d& window, std::int64_t groups, const Array& x,
                          const Array& dy, Array& dw) override;
  void max_pool2d(const Window2d& window, const Array& x, Array& y, Array& index) override;
  void max_pool2d_grad(const Window2d& window, const Array& index, const Array& dy,
                       Array& dx) override;
  void avg_pool2d(const AverageRule& rule, const Array& x, Array& y) override;
  void avg_pool2d_grad(const AverageRule& rule, const Array& dy, Array& dx) override;

  void softmax(bool log, const Array& x, Array& y) override;
  void softmax_grad(bool log, const Array& y, const Array& dy, Array& dx) override;
  void nll(const Array& logp, const Array& target, const Array& weight, std::int64_t ignore_index,
           Array& loss, Array& row_weight) override;
  void nll_grad(const Array& target, const Array& row_weight, std::int64_t ignore_index,
                const Array& dloss, Array& dlogp) override;

  void moments(const Array& x, Array& mean, Array& m2) override;
  void normalize(const Array& x, const Normal& by, Array& y) override;
  void normalize_sums(const Array& x, const Normal& by, const Array& dy, Array& sum_g,
                      Array& sum_gx) override;
  void normalize_grad(const Array& x, const Normal& by, const Array& dy, const Array& mean_g,
                      const Array& mean_gx, Array& dx) override;
  void gather(const char* op, int dim, const Array& x, const Array& index, Array& y) override;
  void scatter_add(int dim, const Array& index, const Array& dy, Array& dx) override;

  void dropout(const DropoutKey& key, const Array& x, Array& y) override;

  void update(UpdateOp op, std::span<UpdateItem> items) override;
  void rescale(double factor, std::span<Array> xs, Array& found) override;

 private:
  int gpu_;
  int multiprocessors_ = 0;
  cudaStream_t compute_ = nullptr;
};

}  // namespace tandem
