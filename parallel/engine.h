// The engine of chapter 7, without types: tensors in, tensors out, one node on the caller's graph.
//
// Who owns what:
//   DataParallel<M>  refers to the user's module, owns the replica modules and (shared) the Engine
//   Engine           devices, workers, the lock, the current Replicas
//   Replicas         handles of the master's tensors, their twins on every rank (chapter 2)
//   Pass             what one forward leaves for its backward; owned by the node's closure, keeps
//                    Engine and Replicas alive, never the module: so backward works after
//                    everything else is gone, and threads join when the last owner goes.
// Thread safety: forward and backward of one engine take its lock in turn; engines are independent,
// also when they share devices.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <tandem/core/autograd.h>
#include <tandem/parallel/gather.h>
#include <tandem/parallel/reduce.h>
#include <tandem/parallel/replicate.h>
#include <tandem/parallel/scatter.h>
#include <tandem/parallel/step_report.h>
#include <tandem/parallel/worker_group.h>

namespace tandem::parallel {

/// Device lists remember whether they were given: none means all devices, an empty one is an error.
class DeviceList {
 public:
  DeviceList() = default;
  DeviceList(std::initializer_list<Device> list) : given_(true), devices_(list) {}
  DeviceList(std::vector<Device> list) : given_(true), devices_(std::move(list)) {}

  bool given() const { return given_; }
  const std::vector<Device>& devices() const { return devices_; }

 private:
  bool given_ = false;
  std::vector<Device> devices_;
};

struct DataParallelOptions {
  DeviceList devices{};                   // default: all devices of the module's kind
  std::optional<Device> output_device{};  // default: the first device
  int dim = 0;                            // inputs are split along it
  std::optional<int> output_dim{};        // outputs are joined along it; default: dim
  ChunkOptions chunks{};                  // how many rows each device gets
  ScalarRule scalars = ScalarRule::mean;  // what becomes of 0-dim outputs
  std::int64_t bucket_bytes = 1 << 20;    // parameters travel, gradients are summed in buckets
  std::optional<bool> coalesce{};         // see ReplicateOptions
};

/// Checks the list: not empty, no duplicate, every device exists. Three distinct errors.
std::vector<Device> resolve_devices(const DeviceList& list, DeviceKind kind);

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  /// REQUIRES: options.devices holds the resolved list.
  explicit Engine(DataParallelOptions options);

  /// Computes the outputs of one replica from its chunk of the arguments.
  using ApplyOne = std::function<Outputs(int rank, std::span<const Tensor> arguments)>;
  enum class Collect : std::uint8_t { gathered, scattered };

  /// One data-parallel forward. Gathered: one tensor per output field. Scattered: for each active
  /// rank in turn, its output fields. REQUIRES: the lock is held.
  std::vector<Tensor> forward(const Arguments& arguments, const Split& split, const ApplyOne& apply,
                              Collect collect);
  /// Who gets which rows of these arguments.
  Split split(const Arguments& arguments) const;

  const DataParallelOptions options;
  const std::vector<Device>& devices() const { return options.devices.devices(); }
  ReplicateOptions replicate_options() const { return {options.bucket_bytes, options.coalesce}; }
  Device output_device() const { return options.output_device.value_or(devices()[0]); }

  std::mutex mutex;
  std::shared_ptr<Replicas> replicas;  // replaced when the module's structure changes
  StepReport report;

 private:
  struct Pass;  // pass.h
  std::shared_ptr<Pass> begin(const Arguments& in, const Split& split, Collect collect);
  std::vector<Tensor> scatter_to(Pass& pass, std::size_t member, const Arguments& in);
  std::vector<Array> gather_outputs(Pass& pass, std::span<const Outputs> outputs);
  Array gather_field(Pass& pass, std::span<const Outputs> outputs, std::size_t field,
                     std::vector<std::vector<Array>>& places);
  std::vector<Tensor> record_node(std::shared_ptr<Pass> pass, const Arguments& in,
                                  std::vector<Array> values);

  class OtherGradients;
  void backward(const Pass& pass, std::span<const Array> dy, const Wanted& wanted,
                std::span<Array> grads);
  std::vector<Array> seeds_of(const Pass& pass, std::size_t member, std::span<const Array> dy,
                              std::vector<Edge>& roots);
  Array seed_of(const Pass& pass, std::size_t member, std::size_t output, const Array& dy);

  WorkerGroup workers_;
};

}  // namespace tandem::parallel
