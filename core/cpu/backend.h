// The CPU backend: one object per logical device. Synchronous: the thread that calls does the work,
// and shares what is large with helpers if the user wants any (team.h); results do not depend on
// their number. Each method is one file of this folder; traverse.h is the loop they share.
#pragma once

#include <memory>

#include <tandem/core/backend.h>
#include <tandem/core/cpu/onednn.h>
#include <tandem/core/numerics.h>

namespace tandem {

class CpuBackend final : public Backend {
 public:
  using Backend::Backend;

  MemoryFormat conv_format() const override {
    return onednn() ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  }
  const host::OneDnn& onednn_primitives() const { return onednn_; }

  void* raw_allocate(std::size_t bytes) override;
  void raw_free(void* data) noexcept override;
  bool watched() const noexcept override;

  void copy_from_host(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void copy_from_device(void* to, Backend& source, const void* from, std::int64_t bytes) override;

  void copy(const Array& x, Array& y) override;
  void cast(const Array& x, Array& y) override;
  void fill(Array& y, double value) override;

  void map(MapOp op, Scalars s, const Array& x, Array& y) override;
  void map_grad(MapOp op, Scalars s, const Array& saved, const Array& dy, Array& dx) override;
  void relu_grad_sums(const Array& y, const Array& dy, Array& dx, Array& sums) override;
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
  host::OneDnn onednn_{};
};

std::unique_ptr<Backend> make_cpu_backend(Device device, std::int64_t memory_limit);

}  // namespace tandem
