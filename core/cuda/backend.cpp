// The device itself: its streams, order, and memory in stream order; see blocks.h.
#include <tandem/core/cuda/backend.h>

#include <algorithm>

#include <tandem/core/stream.h>

namespace tandem {

CudaBackend::CudaBackend(Device device, int gpu, std::int64_t memory_limit)
    : Backend(device, memory_limit),
      gpu_(gpu),
      events_(std::make_shared<gpu::EventPool>(device, gpu)),
      timed_events_(std::make_shared<gpu::EventPool>(device, gpu, true)),
      staging_(device, gpu) {
  const gpu::OnDevice on(gpu);
  TANDEM_CUDA_CHECK(device,
                    cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, gpu));
  TANDEM_CUDA_CHECK(device, cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
  const cudaError_t made = cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking);
  if (made != cudaSuccess) gpu::ignored(cudaStreamDestroy(compute_));
  gpu::check_status(made, "cudaStreamCreateWithFlags", device);
}

CudaBackend::~CudaBackend() {
  const gpu::OnDevice on(gpu_, std::nothrow);
  gpu::ignored(cudaStreamSynchronize(side_));
  gpu::ignored(cudaStreamSynchronize(compute_));
  close_libraries();
  pool().empty_cache();
  staging_.clear();
  gpu::ignored(cudaStreamDestroy(side_));
  gpu::ignored(cudaStreamDestroy(compute_));
}

// ---- order

cudaStream_t CudaBackend::stream() {
  void* guest = guarded_stream(device());
  return guest ? static_cast<cudaStream_t>(guest) : compute_;
}

Event CudaBackend::record(Stream on) {
  return {events_->record(static_cast<cudaStream_t>(on.handle))};
}

Event CudaBackend::record_time() {
  return {timed_events_->record(stream())};
}

double CudaBackend::seconds_between(const Event& from, const Event& to) {
  const auto begin = static_cast<cudaEvent_t>(from.state.get());
  const auto end = static_cast<cudaEvent_t>(to.state.get());
  float ms = 0;
  const gpu::OnDevice on(gpu_);
  TANDEM_CUDA_CHECK(device(), cudaEventSynchronize(end));
  TANDEM_CUDA_CHECK(device(), cudaEventElapsedTime(&ms, begin, end));
  return double(ms) * 1e-3;
}

void CudaBackend::wait(Stream stream, const Event& event) {
  const gpu::OnDevice on(gpu_);
  gpu::wait(static_cast<cudaStream_t>(stream.handle),
            std::static_pointer_cast<CUevent_st>(event.state), device());
}

// A guest may be taken away while this waits: so not for the stream, for an event.
void CudaBackend::synchronize() {
  const gpu::OnDevice on(gpu_);
  std::vector<gpu::Mark> marks;
  for_each_guest([&](cudaStream_t guest) { marks.push_back(events_->record(guest)); });
  for (const gpu::Mark& mark : marks) {
    TANDEM_CUDA_CHECK(device(), cudaEventSynchronize(mark.get()));
  }
  TANDEM_CUDA_CHECK(device(), cudaStreamSynchronize(side_));
  TANDEM_CUDA_CHECK(device(), cudaStreamSynchronize(compute_));
}

void CudaBackend::fork_side_stream() {
  const gpu::OnDevice on(gpu_);
  gpu::wait(side_, events_->record(stream()), device());
}

void CudaBackend::join_side_stream() noexcept {
  const gpu::OnDevice on(gpu_, std::nothrow);
  try {
    gpu::wait(stream(), events_->record(side_), device());
  } catch (...) {
    gpu::ignored(cudaStreamSynchronize(side_));
  }
}

// ---- a program's own streams

void CudaBackend::lend_to(Stream stream) {
  const auto guest = static_cast<cudaStream_t>(stream.handle);
  const cudaStream_t around = this->stream();
  gpu::wait(guest, events_->record(compute_), device());
  if (around != compute_) gpu::wait(guest, events_->record(around), device());
  const std::lock_guard lock(guests_mutex_);
  guests_.push_back(guest);
  ++guest_count_;
}

void CudaBackend::take_back_from(Stream stream) noexcept {
  const auto guest = static_cast<cudaStream_t>(stream.handle);
  try {
    gpu::wait(this->stream(), events_->record(guest), device());
  } catch (...) {
    gpu::ignored(cudaStreamSynchronize(guest));
  }
  const std::lock_guard lock(guests_mutex_);
  guests_.erase(std::find(guests_.begin(), guests_.end(), guest));
  --guest_count_;
}

// ---- memory

void* CudaBackend::raw_allocate(std::size_t bytes) {
  const gpu::OnDevice on(gpu_);
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  gpu::check_status(status, "cudaMalloc", device());  // a kernel that failed may be told of here
  try {
    blocks_.add(data, bytes);
  } catch (...) {
    gpu::ignored(cudaFree(data));
    throw;
  }
  return data;
}

// cudaFree may wait for work that uses the block, says its documentation; so it may not. Copies by
// other devices are among what the compute stream waits for (transfer.cpp).
void CudaBackend::raw_free(void* data) noexcept {
  const gpu::OnDevice on(gpu_, std::nothrow);
  released(data);
  for (const gpu::Mark& mark : blocks_.take(data)) gpu::ignored(cudaEventSynchronize(mark.get()));
  gpu::ignored(cudaStreamSynchronize(compute_));
  blocks_.remove(data);
  gpu::ignored(cudaFree(data));
}

// What the other logical devices on this GPU have cached. Two devices may do this to each other at
// once, so neither waits for the other's pool.
bool CudaBackend::others_made_room() noexcept {
  bool any = false;
  for (int i = 0; i < kMaxDevices; ++i) {
    auto* other = static_cast<CudaBackend*>(find_backend(cuda(i)));
    if (other && other != this && other->gpu_ == gpu_) any |= other->pool().try_empty_cache();
  }
  return any;
}

void CudaBackend::record_use(const Storage& storage, Stream by) {
  const auto user = static_cast<cudaStream_t>(by.handle);
  if (by.device.kind != DeviceKind::cuda || user == compute_) return;
  try {
    auto& its = by.device == device() ? *this : static_cast<CudaBackend&>(backend(by.device));
    blocks_.mark(storage.root().data(), its.events_->record(user));
  } catch (...) {
    gpu::ignored(cudaStreamSynchronize(user));
    throw;
  }
}

// Whoever frees it may have been told to do so by a thread whose work is on a guest.
void CudaBackend::released(void* data) noexcept {
  const auto mark = [&](cudaStream_t user) {
    try {
      blocks_.mark(data, events_->record(user));
    } catch (...) {
      gpu::ignored(cudaStreamSynchronize(user));
    }
  };
  if (stream() == side_) mark(side_);
  for_each_guest(mark);
}

void CudaBackend::reused(void* data) {
  const cudaStream_t mine = stream();
  const std::vector<gpu::Mark> marks = blocks_.marks(data);
  if (marks.empty() && mine == compute_) return;
  const gpu::OnDevice on(gpu_);
  for (const gpu::Mark& mark : marks) gpu::wait(mine, mark, device());
  if (mine != compute_) gpu::wait(mine, events_->record(compute_), device());
  blocks_.clear(data);
}

}  // namespace tandem
