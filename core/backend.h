// Backend: the narrow waist between arrays and devices; one object per logical device.
//
// Three groups: memory, order, and about twenty kernel *families* that take Arrays. Op codes cross
// this border (functors.h), never functor types. Outputs are allocated by the caller
// (array_ops.cpp), live on this device and have the shape, dtype and device the family asks for:
// everything has been checked before a kernel is called. Inputs may have any strides; a stride of
// zero is how broadcasting arrives here. Kernels write every element of their outputs.
//
// On a GPU a call only enqueues work on the device's current stream; on a CPU it is done when the
// call returns. Thread safety: any thread may free memory and submit work to a GPU (the last rank
// sums gradients on the first device's); calls for one CPU come from one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/array.h>
#include <tandem/core/device.h>
#include <tandem/core/functors.h>
#include <tandem/core/memory.h>
#include <tandem/core/normal.h>
#include <tandem/core/philox.h>
#include <tandem/core/reduce_rules.h>
#include <tandem/core/update_rules.h>
#include <tandem/core/window.h>

namespace tandem {

/// A queue of a logical device. A CPU has one, always empty.
struct Stream {
  Device device{};
  void* handle = nullptr;
};

/// A point in a stream that others can wait for. Copies share it; empty: nothing to wait for.
struct Event {
  std::shared_ptr<void> state;
};

/// Numbers for a map rule; the kernel converts them to the type it computes in.
struct Scalars {
  double a = 0, b = 0;
};

/// One parameter of Backend::update(). Everything but `grad` is written in place.
struct UpdateItem {
  Array param;
  Array grad;
  std::array<Array, 3> state{};  // undefined where a rule has none
  std::array<double, kUpdateCoefficients> c{};
};

class Backend : public RawMemory {
 public:
  Backend(Device device, std::int64_t memory_limit)
      : device_(device), pool_(device, *this, memory_limit) {}
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  Device device() const { return device_; }
  Pool& pool() { return pool_; }

  // ---- order. CPU: everything has happened already.

  virtual Stream current_stream() { return {device_, nullptr}; }
  virtual Event record(Stream) { return {}; }
  virtual void wait(Stream, const Event&) {}
  /// A point in the current stream whose time can be read; CPU: empty, the host's clock does.
  virtual Event record_time() { return {}; }
  /// Seconds between two of them, waiting for the later one.
  virtual double seconds_between(const Event&, const Event&) { return 0; }
  /// Until all work of this device is done.
  virtual void synchronize() {}
  /// `storage` is read by work on `stream` so far: its memory lives until that work is done.
  virtual void record_use(const Storage&, Stream) {}
  /// Work of threads that have a StreamGuard goes onto `stream` from now on: it begins after what
  /// this device and the thread's current stream have been given so far. And back, once `stream` is
  /// not the current one any more: what that is given from now on begins after its work.
  virtual void lend_to(Stream) {}
  virtual void take_back_from(Stream) noexcept {}
  /// A second queue of this device, for what may run beside the work of the current stream: see
  /// SideStreams in stream.h. Nothing orders the two but these. fork: what the side stream is given
  /// from now on begins after what the current stream has been given so far. join: the other way
  /// round, whatever fails.
  virtual Stream side_stream() { return {device_, nullptr}; }
  virtual void fork_side_stream() {}
  virtual void join_side_stream() noexcept {}

  // ---- what this backend prefers

  /// How the results of convolutions lie when nothing else decides (see ops/conv.h).
  virtual MemoryFormat conv_format() const { return MemoryFormat::contiguous; }
  /// The type of the statistics of normal.h for values of type `x`.
  virtual DType statistics_type(DType) const { return DType::float64; }

  // ---- copies of dense bytes

  virtual void copy_from_host(void* to, const void* from, std::int64_t bytes) = 0;
  /// The same from pinned memory (pinned_memory()), whose bytes are read when the copy runs: it
  /// lives until then, whoever frees it, and nobody writes there.
  virtual void copy_from_pinned(void* to, const void* from, std::int64_t bytes) {
    copy_from_host(to, from, bytes);
  }
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes) = 0;
  /// From another logical device (`source`) to this one, ordered after the work that wrote `from`.
  virtual void copy_from_device(void* to, Backend& source, const void* from,
                                std::int64_t bytes) = 0;

  // ---- kernels

  /// y = x with any strides on either side; equal shapes and dtypes.
  virtual void copy(const Array& x, Array& y) = 0;
  /// ys[i] = xs[i] for all i, none of which overlaps another: where a call costs more than a small
  /// copy, many are one. Any dtypes.
  virtual void copy_all(std::span<const Array> xs, std::span<Array> ys) {
    for (std::size_t i = 0; i < xs.size(); ++i) copy(xs[i], ys[i]);
  }
  /// y = x converted; equal shapes. Float to integer truncates, anything to bool is x != 0.
  virtual void cast(const Array& x, Array& y) = 0;
  virtual void fill(Array& y, double value) = 0;

  /// y = f(x); y may be x itself.
  virtual void map(MapOp op, Scalars s, const Array& x, Array& y) = 0;
  /// dx = f'(saved) dy, where `saved` is what the rule saves (undefined for Saves::nothing).
  virtual void map_grad(MapOp op, Scalars s, const Array& saved, const Array& dy, Array& dx) = 0;
  /// map_grad() of Relu, y being its output, and the sums of dx as reduce() takes them.
  virtual void relu_grad_sums(const Array& y, const Array& dy, Array& dx, Array& sums) {
    map_grad(map_op<Relu>, {}, y, dy, dx);
    reduce(reduce_op<SumRule>, dx, sums);
  }
  /// y = f(a, b), all of y's shape; y may be a itself (in place).
  virtual void zip(ZipOp op, const Array& a, const Array& b, Array& y) = 0;
  /// The derivative with respect to operand 0 (a) or 1 (b) times dy, of dy's shape.
  virtual void zip_grad(ZipOp op, int operand, const Array& a, const Array& b, const Array& dy,
                        Array& dx) = 0;
  /// y = condition ? a : b, all of y's shape; condition is bool.
  virtual void where(const Array& condition, const Array& a, const Array& b, Array& y) = 0;

  /// Reduces the dimensions of x in which y has size 1. y has x's number of dimensions and x's
  /// dtype. Deterministic; the order of additions depends on the shape only.
  virtual void reduce(ReduceOp op, const Array& x, Array& y) = 0;
  /// y (int64) = first index of the largest (or smallest) element along `dim`; NaN counts as
  /// largest (smallest). y has size 1 there.
  virtual void arg_reduce(bool largest, const Array& x, int dim, Array& y) = 0;

  /// c = a b, or c += a b if `accumulate`. a (B, M, K), b (B, K, N), c (B, M, N) row-major.
  virtual void gemm(const Array& a, const Array& b, Array& c, bool accumulate) = 0;

  // Images: x (N, C, H, W), w (O, C / groups, KH, KW), y (N, O, P, Q), and their gradients.
  // `window.kernel` is w's, and there are P x Q windows. All of them are dense, and each may be
  // row-major or channels-last whatever the others are: go by the strides.

  /// y[n, o, p, q] = bias[o] + sum of w[o, c, i, j] x[n, c0 + c, row(p, i), column(q, j)] over
  /// c, i, j, where x is 0 in the padding and c0 is the first channel of o's group. bias (O), or
  /// undefined. Only a library's choice of a kernel may make a sample's bits depend on the others.
  virtual void conv2d(const Window2d& window, std::int64_t groups, const Array& x, const Array& w,
                      const Array& bias, Array& y) = 0;
  virtual void conv2d_grad_input(const Window2d& window, std::int64_t groups, const Array& w,
                                 const Array& dy, Array& dx) = 0;
  virtual void conv2d_grad_weight(const Window2d& window, std::int64_t groups, const Array& x,
                                  const Array& dy, Array& dw) = 0;
  /// y (N, C, P, Q) = the largest of each window, padding apart; the first of equals, or the last
  /// NaN. index (int32, y's shape and strides; undefined: not wanted) = its h W + w, or -1: only
  /// padding.
  virtual void max_pool2d(const Window2d& window, const Array& x, Array& y, Array& index) = 0;
  /// dx = for every element the sum of dy over the windows that took it.
  virtual void max_pool2d_grad(const Window2d& window, const Array& index, const Array& dy,
                               Array& dx) = 0;
  /// y (N, C, P, Q) = the average of each window; see window.h.
  virtual void avg_pool2d(const AverageRule& rule, const Array& x, Array& y) = 0;
  virtual void avg_pool2d_grad(const AverageRule& rule, const Array& dy, Array& dx) = 0;

  /// Along the last dimension: y = softmax(x), or its logarithm. y contiguous.
  virtual void softmax(bool log, const Array& x, Array& y) = 0;
  virtual void softmax_grad(bool log, const Array& y, const Array& dy, Array& dx) = 0;
  /// row_weight[i] = weight[target[i]], or 1 without a weight; loss[i] = -row_weight[i] logp[i,
  /// target[i]]; both 0 where target[i] is `ignore_index`. logp (N, C), target (N) int64, weight
  /// (C) or undefined; weight, loss and row_weight are float32 for 16-bit logp. Throws UsageError
  /// for another target outside [0, C), naming row and value.
  virtual void nll(const Array& logp, const Array& target, const Array& weight,
                   std::int64_t ignore_index, Array& loss, Array& row_weight) = 0;
  /// dlogp[i, c] = c == target[i] ? -row_weight[i] dloss[i] : 0; rows that are ignored are 0
  /// whatever dloss is. dloss is of row_weight's type.
  virtual void nll_grad(const Array& target, const Array& row_weight, std::int64_t ignore_index,
                        const Array& dloss, Array& dlogp) = 0;

  // Normalization of x (outer, C, inner); see normal.h. All are row-major; statistics (C) are of
  // statistics_type(x). Weight and bias may have any strides. Channels-last images come as
  // (N H W, C, 1).

  /// mean, and m2 = sum (x - mean)^2, of each channel; zeros if there is nothing.
  virtual void moments(const Array& x, Array& mean, Array& m2) = 0;
  /// y = xhat weight + bias, where xhat = (x - mean) / sqrt(var + eps).
  virtual void normalize(const Array& x, const Normal& by, Array& y) = 0;
  /// Of each channel: sum_g = sum g, sum_gx = sum g xhat, where g = weight dy.
  virtual void normalize_sums(const Array& x, const Normal& by, const Array& dy, Array& sum_g,
                              Array& sum_gx) = 0;
  /// dx = (weight dy - mean_g - xhat mean_gx) / sqrt(var + eps)
  virtual void normalize_grad(const Array& x, const Normal& by, const Array& dy,
                              const Array& mean_g, const Array& mean_gx, Array& dx) = 0;

  /// Along `dim`: y[.., i, ..] = x[.., index[.., i, ..], ..]. y and index (int64) have one shape, x
  /// has it too but for `dim`; whole rows are picked with an index that has strides of zero. Throws
  /// UsageError naming `op`, position and value of an index outside [0, size of x along dim).
  virtual void gather(const char* op, int dim, const Array& x, const Array& index, Array& y) = 0;
  /// Its transpose: dx[.., k, ..] = sum of the dy[.., i, ..] with index[.., i, ..] == k, added in
  /// the order of i, in float32 for 16-bit types; 0 where there is none. Index has been checked.
  virtual void scatter_add(int dim, const Array& index, const Array& dy, Array& dx) = 0;

  /// y = x * dropout_scales() of the row and the position in it; rows are dim 0, positions count in
  /// row-major order whatever the layout is. x and y lie alike: both contiguous, or both
  /// channels-last.
  virtual void dropout(const DropoutKey& key, const Array& x, Array& y) = 0;

  /// One step of an optimizer over many parameters; see update_rules.h. All arrays of an item are
  /// dense with equal strides. The caller raises the versions of what was written.
  virtual void update(UpdateOp op, std::span<UpdateItem> items) = 0;
  /// x = x factor for every x, in place (as they are if factor is 1), measured in the same pass:
  /// found[i] = {sum of squares of the products, 1 if some element was infinite or NaN before, else
  /// 0}. The xs are dense and of one floating type; found (n, 2) is float32, float64 for float64.
  /// The caller raises the versions of what was written.
  virtual void rescale(double factor, std::span<Array> xs, Array& found) = 0;

 private:
  Device device_;
  Pool pool_;
};

/// The backend of a logical device. Throws DeviceError if there is no such device. The first use
/// fixes what configure_devices() may still change. Throws UsageError in a forked child.
Backend& backend(Device device);

/// The same for destructors: never throws. REQUIRES: the backend exists.
Backend& existing_backend(Device device) noexcept;

/// The same, or null if nobody has asked for it yet.
Backend* find_backend(Device device) noexcept;

/// How a kind of device comes into being; core/device.cpp holds the table. See docs/devices.md.
struct BackendFactory {
  int (*count)() = nullptr;                    // logical devices there are
  std::string (*why_unavailable)() = nullptr;  // when count() is 0
  std::unique_ptr<Backend> (*make)(Device, std::int64_t memory_limit) = nullptr;
  std::shared_ptr<std::byte> (*pin)(std::int64_t bytes) = nullptr;  // if it reads pinned memory
};
void register_backend(DeviceKind kind, const BackendFactory& factory);

/// Host memory that stays where it is, so that copies to GPUs can read it while the host goes on.
/// Null where there is no GPU.
std::shared_ptr<std::byte> pinned_memory(std::int64_t bytes);

/// What configure_devices() asked for (cuda_per_gpu resolved with the environment).
DeviceOptions device_options();

}  // namespace tandem
