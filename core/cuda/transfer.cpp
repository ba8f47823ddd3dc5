// Copies between the host and a device, and between devices.
//
// Note [Edges between devices]
//   A copy runs on the stream of the device that receives it, which first waits for what the other
//   device has been given to do so far: that wrote the source. The other device then waits for the
//   copy, for its next work may overwrite the source. Both waits are on the GPU; no host thread
//   ever waits for a copy between devices. "The stream" is on both sides this thread's current one:
//   in the scope of SideStreams the edges are between side streams, and nobody else waits.
//
// How: on one GPU a copy in its memory; between peers directly; else chunk by chunk through pinned
// host memory (staging.h).
#include <algorithm>
#include <cstring>

#include <tandem/core/cuda/backend.h>
#include <tandem/core/cuda/peers.h>
#include <tandem/core/cuda/pinned.h>

namespace tandem {
namespace {

// f(offset, bytes) for each piece that fits into a staging buffer.
template <class F>
void for_each_chunk(std::int64_t bytes, F f) {
  constexpr auto most = std::int64_t(gpu::Staging::kLarge);
  for (std::int64_t at = 0; at < bytes; at += most) {
    f(std::size_t(at), std::size_t(std::min(most, bytes - at)));
  }
}

// The next work on `other` begins after what is on `mine`, whatever fails.
void let_wait(cudaStream_t other, gpu::EventPool& events, cudaStream_t mine, Device device) {
  try {
    gpu::wait(other, events.record(mine), device);
  } catch (...) {
    gpu::ignored(cudaStreamSynchronize(mine));
    throw;
  }
}

}  // namespace

void CudaBackend::copy_from_host(void* to, const void* from, std::int64_t bytes) {
  const gpu::OnDevice on(gpu_);
  const cudaStream_t mine = stream();
  for_each_chunk(bytes, [&](std::size_t at, std::size_t n) {
    gpu::StagingLoan loan(staging_, n);
    std::memcpy(loan.data(), static_cast<const std::byte*>(from) + at, n);
    loan.touched_by(mine);
    TANDEM_CUDA_CHECK(device(), cudaMemcpyAsync(static_cast<std::byte*>(to) + at, loan.data(), n,
                                                cudaMemcpyHostToDevice, mine));
    loan.done(events_->record(mine));
  });
}

// From the memory of pinned.h, which then knows for how long it is read.
void CudaBackend::copy_from_pinned(void* to, const void* from, std::int64_t bytes) {
  const gpu::OnDevice on(gpu_);
  const cudaStream_t mine = stream();
  TANDEM_CUDA_CHECK(device(),
                    cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyHostToDevice, mine));
  try {
    gpu::Pinned::all().mark(from, events_->record(mine));
  } catch (...) {
    gpu::ignored(cudaStreamSynchronize(mine));
    throw;
  }
}

void CudaBackend::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  const gpu::OnDevice on(gpu_);
  const cudaStream_t mine = stream();
  TANDEM_CUDA_CHECK(device(),
                    cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyDeviceToHost, mine));
  TANDEM_CUDA_CHECK(device(), cudaStreamSynchronize(mine));
}

void CudaBackend::copy_from_device(void* to, Backend& source, const void* from,
                                   std::int64_t bytes) {
  if (source.device().kind == DeviceKind::cpu) return copy_from_host(to, from, bytes);
  if (bytes == 0) return;
  auto& other = static_cast<CudaBackend&>(source);
  const bool direct = gpu_ == other.gpu_ || gpu::peers(gpu_, other.gpu_, device());
  if (!direct) return copy_staged(to, other, from, bytes);

  const gpu::OnDevice on(gpu_);
  const cudaStream_t mine = stream(), its = other.stream();
  gpu::wait(mine, other.events_->record(its), device());
  if (gpu_ == other.gpu_) {
    TANDEM_CUDA_CHECK(
        device(), cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyDeviceToDevice, mine));
  } else {
    TANDEM_CUDA_CHECK(device(),
                      cudaMemcpyPeerAsync(to, gpu_, from, other.gpu_, std::size_t(bytes), mine));
  }
  let_wait(its, *events_, mine, device());
}

// The source's own stream reads it: its next work needs no edge.
void CudaBackend::copy_staged(void* to, CudaBackend& other, const void* from, std::int64_t bytes) {
  const gpu::OnDevice here(gpu_);
  const cudaStream_t mine = stream(), its = other.stream();
  for_each_chunk(bytes, [&](std::size_t at, std::size_t n) {
    gpu::StagingLoan loan(staging_, n);
    loan.touched_by(its);
    {
      const gpu::OnDevice there(other.gpu_);
      TANDEM_CUDA_CHECK(other.device(),
                        cudaMemcpyAsync(loan.data(), static_cast<const std::byte*>(from) + at, n,
                                        cudaMemcpyDeviceToHost, its));
    }
    gpu::wait(mine, other.events_->record(its), device());
    loan.touched_by(mine);
    TANDEM_CUDA_CHECK(device(), cudaMemcpyAsync(static_cast<std::byte*>(to) + at, loan.data(), n,
                                                cudaMemcpyHostToDevice, mine));
    loan.done(events_->record(mine));
  });
}

}  // namespace tandem
