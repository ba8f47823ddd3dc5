// The CUDA backend: one object per logical device, several of which may share a GPU. It mirrors
// cpu/ file by file: a family's method is host code in <family>.cpp, its kernels are in
// kernels/<family>.cu with thin launchers that take plain pointers, sizes and a stream.
//
// All work of a logical device goes onto its compute stream (or a StreamGuard's, which is ordered
// with it), so order within a device needs no events; between devices transfer.cpp makes the edges.
// One kind of work has a stream beside it, the side stream: the sums of gradients, which run while
// backward goes on. It is ordered by its fork and join alone (parallel/reduce.h).
// Kernels are launched through launch() only, libraries called through blas() and dnn().
// Thread safety: any thread may call; what one thread submits after another is ordered after it.
// Next: check.h (errors), transfer.cpp (copies), blocks.h (memory in stream order).
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <tandem/core/backend.h>
#include <tandem/core/cuda/blocks.h>
#include <tandem/core/cuda/check.h>
#include <tandem/core/cuda/events.h>
#include <tandem/core/cuda/staging.h>

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

  /// Calls f(handle) with this device current and the handle on stream(), one thread at a time.
  /// `workspace` bytes, at most kMostWorkspace, are the library's until its work is done.
  template <class F>
  void blas(std::int64_t workspace, F&& f) {
    const Array room = gpu::workspace(workspace, device());
    const std::lock_guard lock(libraries_);
    const gpu::OnDevice on(gpu_);
    f(blas_handle(room));
  }
  /// The same for cuDNN: ask(handle, &bytes) says how much workspace the call needs, run(handle,
  /// workspace, bytes) is it.
  template <class Ask, class Run>
  void dnn(Ask&& ask, Run&& run) {
    const std::lock_guard lock(libraries_);
    const gpu::OnDevice on(gpu_);
    const cudnnHandle_t handle = dnn_handle();
    std::size_t bytes = 0;
    gpu::check_status(ask(handle, &bytes), "the question for a cuDNN workspace", device());
    Array room = gpu::workspace(std::int64_t(bytes), device());
    run(handle, room.fresh_data(), bytes);
  }
  static constexpr std::int64_t kMostWorkspace = std::int64_t(32) << 20;

  void* raw_allocate(std::size_t bytes) override;
  void raw_free(void* data) noexcept override;
  bool others_made_room() noexcept override;
  void released(void* data) noexcept override;
  void reused(void* data) override;

  Stream current_stream() override { return {device(), stream()}; }
  Event record(Stream on) override;
  Event record_time() override;
  double seconds_between(const Event& from, const Event& to) override;
  void wait(Stream stream, const Event& event) override;
  void synchronize() override;
  void record_use(const Storage& storage, Stream by) override;
  void lend_to(Stream stream) override;
  void take_back_from(Stream stream) noexcept override;
  Stream side_stream() override { return {device(), side_}; }
  void fork_side_stream() override;
  void join_side_stream() noexcept override;

  MemoryFormat conv_format() const override { return MemoryFormat::channels_last; }
  DType statistics_type(DType) const override { return DType::float32; }

  void copy_from_host(void* to, const void* from, std::int64_t bytes) override;
  void copy_from_pinned(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void copy_from_device(void* to, Backend& source, const void* from, std::int64_t bytes) override;

  void copy(const Array& x, Array& y) override;
  void copy_all(std::span<const Array> xs, std::span<Array> ys) override;
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
  void copy_staged(void* to, CudaBackend& other, const void* from, std::int64_t bytes);
  void multiply_whole(const Array& a, const Array& b, Array& c, bool accumulate);
  void add_bias(const Array& bias, Array& y);
  cublasHandle_t blas_handle(const Array& workspace);
  cudnnHandle_t dnn_handle();
  void close_libraries() noexcept;

  // f(stream) for the stream of each StreamGuard that lives. None of them ends meanwhile, so the
  // stream exists; f must not wait, nor take or free memory.
  template <class F>
  void for_each_guest(F f) {
    if (guest_count_.load() == 0) return;
    const std::lock_guard lock(guests_mutex_);
    for (const cudaStream_t guest : guests_) f(guest);
  }

  int gpu_;
  int multiprocessors_ = 0;
  cudaStream_t compute_ = nullptr;
  cudaStream_t side_ = nullptr;
  std::shared_ptr<gpu::EventPool> events_;
  std::shared_ptr<gpu::EventPool> timed_events_;
  gpu::Blocks blocks_;
  gpu::Staging staging_;

  std::mutex guests_mutex_;
  std::vector<cudaStream_t> guests_;  // of StreamGuards that live
  std::atomic<int> guest_count_{0};

  std::mutex libraries_;  // guards the handles
  cublasHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
};

}  // namespace tandem
