// Which GPUs there are, and if none, why. Asked once; no GPU is an answer, not an error.
#pragma once

#include <memory>
#include <string>

#include <tandem/core/backend.h>

namespace tandem::gpu {

struct Probe {
  int gpus = 0;
  std::string why_none;  // "no driver: ..." where gpus is 0
};
const Probe& probe();

/// Logical devices: GPUs times devices per GPU, at most kMaxDevices. `cuda:i` is on GPU i % gpus.
int device_count();
std::unique_ptr<Backend> make_backend(Device device, std::int64_t memory_limit);

}  // namespace tandem::gpu
