#include <tandem/core/cuda/peers.h>

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/cuda/check.h>

namespace tandem::gpu {
namespace {

constexpr std::size_t kBytes = std::size_t(64) << 10;

// Memory and a stream of one GPU for the length of the trial.
struct Side {
  Device device;
  int gpu;
  void* data = nullptr;
  cudaStream_t stream = nullptr;

  Side(Device d, int g) : device(d), gpu(g) {}
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  void open() {
    const OnDevice on(gpu);
    TANDEM_CUDA_CHECK(device, cudaMalloc(&data, kBytes));
    TANDEM_CUDA_CHECK(device, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~Side() {
    if (stream) ignored(cudaStreamSynchronize(stream));
    if (stream) ignored(cudaStreamDestroy(stream));
    if (data) ignored(cudaFree(data));
  }
};

void enable(int gpu, int other, Device device) {
  const OnDevice on(gpu);
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return;
  }
  check_status(status, "cudaDeviceEnablePeerAccess", device);
}

// Does a pattern arrive? What was there before is another one.
bool delivers(int to, int from, Device device) {
  std::vector<unsigned char> sent(kBytes), got(kBytes, 0x55);
  for (std::size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<unsigned char>(i * 7 + i / 251);
  Side source(device, from), target(device, to);
  source.open();
  target.open();
  const auto copy = [&](void* out, const void* in, cudaMemcpyKind kind, cudaStream_t stream) {
    TANDEM_CUDA_CHECK(device, cudaMemcpyAsync(out, in, kBytes, kind, stream));
    TANDEM_CUDA_CHECK(device, cudaStreamSynchronize(stream));
  };
  copy(target.data, got.data(), cudaMemcpyHostToDevice, target.stream);
  copy(source.data, sent.data(), cudaMemcpyHostToDevice, source.stream);
  TANDEM_CUDA_CHECK(device,
                    cudaMemcpyPeerAsync(target.data, to, source.data, from, kBytes, target.stream));
  copy(got.data(), target.data, cudaMemcpyDeviceToHost, target.stream);
  return got == sent;
}

// `why_not`: what a person should know.
bool try_pair(int to, int from, Device device, std::string& why_not) {
  int there = 0, back = 0;
  TANDEM_CUDA_CHECK(device, cudaDeviceCanAccessPeer(&there, to, from));
  TANDEM_CUDA_CHECK(device, cudaDeviceCanAccessPeer(&back, from, to));
  if (!there || !back) return false;
  enable(to, from, device);
  enable(from, to, device);
  const bool good = delivers(to, from, device);
  if (!good) why_not = "a test pattern did not arrive";
  return good;
}

}  // namespace

// What was found is final, failures too: a trial for every copy would be slow, and a step's copies
// would change their way in the middle of a run.
bool peers(int to, int from, Device device) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, bool> known;
  std::string why_not;
  bool good = false;
  {
    const std::lock_guard lock(mutex);
    const auto found = known.find({to, from});
    if (found != known.end()) return found->second;
    try {
      good = try_pair(to, from, device, why_not);
    } catch (const DeviceError& e) {
      why_not = e.what();
    }
    known.emplace(std::pair(to, from), good);
  }
  if (!why_not.empty()) {  // without the lock: a program's handler may copy
    warn_once(str("[cuda] GPU ", from, " claims to reach GPU ", to, " directly, but: ", why_not,
                  ". Copies go through the host"));
  }
  return good;
}

}  // namespace tandem::gpu
