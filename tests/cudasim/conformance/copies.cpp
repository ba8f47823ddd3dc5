// Conformance of copies and fills: what arrives, and when the call returns.
#include "conformance/support.h"

#include <algorithm>
#include <numeric>

using namespace conformance;

namespace {

constexpr int kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(int);

std::vector<int> counted(int from) {
  std::vector<int> v(kCount);
  std::iota(v.begin(), v.end(), from);
  return v;
}

}  // namespace

TEST_CASE("cudaMemcpyAsync: bytes survive the way to the device and back") {
  Stream stream;
  OnGpu<int> device(kCount);
  Pinned<int> there(kCount), back(kCount, -1);
  std::iota(there.data, there.data + kCount, 5);
  OK(cudaMemcpyAsync(device, there, kBytes, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyAsync(back, device, kBytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(std::equal(back.data, back.data + kCount, there.data));
}

TEST_CASE("cudaMemcpyAsync from pageable memory: the source may change once the call returned") {
  Stream stream;
  OnGpu<int> device(kCount);
  std::vector<int> source = counted(3);
  OK(cudaMemcpyAsync(device, source.data(), kBytes, cudaMemcpyHostToDevice, stream));
  std::fill(source.begin(), source.end(), -1);
  OK(cudaStreamSynchronize(stream));
  CHECK(fetch<int>(device, kCount) == counted(3));
}

TEST_CASE("cudaMemcpyAsync to pageable memory: returns only once the copy has completed") {
  Stream stream;
  OnGpu<int> device(kCount);
  OK(cudaMemcpy(device, counted(9).data(), kBytes, cudaMemcpyHostToDevice));
  std::vector<int> target(kCount, -1);
  OK(cudaMemcpyAsync(target.data(), device, kBytes, cudaMemcpyDeviceToHost, stream));
  CHECK(target == counted(9));
}

TEST_CASE("cudaMemcpyAsync to pinned memory: returns while earlier work is pending") {
  Stream stream;
  OnGpu<int> device(kCount);
  OK(cudaMemcpy(device, counted(1).data(), kBytes, cudaMemcpyHostToDevice));
  Pinned<int> target(kCount, -1);
  Gate gate;
  gate.close_on(stream);
  OK(cudaMemcpyAsync(target, device, kBytes, cudaMemcpyDeviceToHost, stream));
  CHECK(target[0] == -1);
  release(gate, stream);
  CHECK(target[0] == 1);
}

TEST_CASE("cudaMemcpyAsync from pinned memory: the source is read when the copy runs") {
  Stream stream;
  OnGpu<int> device(kCount);
  Pinned<int> source(kCount, 1);
  Gate gate;
  gate.close_on(stream);
  OK(cudaMemcpyAsync(device, source, kBytes, cudaMemcpyHostToDevice, stream));
  std::fill(source.data, source.data + kCount, 2);  // wrong in a program; here the point
  release(gate, stream);
  CHECK(fetch<int>(device, kCount) == std::vector<int>(kCount, 2));
}

TEST_CASE("cudaMemcpyAsync from host to host: returns only once the copy has completed") {
  Stream stream;
  std::vector<int> source = counted(4), target(kCount, -1);
  OK(cudaMemcpyAsync(target.data(), source.data(), kBytes, cudaMemcpyHostToHost, stream));
  CHECK(target == source);
}

TEST_CASE("cudaMemcpyAsync on one device: returns while earlier work is pending") {
  Stream stream;
  OnGpu<int> from(kCount), to(kCount);
  OK(cudaMemcpy(from, counted(6).data(), kBytes, cudaMemcpyHostToDevice));
  Gate gate;
  gate.close_on(stream);
  OK(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  (void)cudaGetLastError();
  release(gate, stream);
  CHECK(fetch<int>(to, kCount) == counted(6));
}

TEST_CASE("cudaMemcpyAsync: operations of one stream run in the order of issue") {
  Stream stream;
  OnGpu<int> a(kCount), b(kCount);
  Pinned<int> back(kCount, -1);
  OK(cudaMemsetAsync(a, 1, kBytes, stream));
  OK(cudaMemcpyAsync(b, a, kBytes, cudaMemcpyDeviceToDevice, stream));
  OK(cudaMemsetAsync(a, 2, kBytes, stream));
  OK(cudaMemcpyAsync(back, b, kBytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(back[kCount - 1] == 0x01010101);
}

TEST_CASE("cudaMemcpyDefault: the direction is inferred from the pointers") {
  Stream stream;
  OnGpu<int> device(kCount);
  std::vector<int> there = counted(8), back(kCount, -1);
  OK(cudaMemcpyAsync(device, there.data(), kBytes, cudaMemcpyDefault, stream));
  OK(cudaMemcpyAsync(back.data(), device, kBytes, cudaMemcpyDefault, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(back == there);
}

TEST_CASE("cudaMemcpyAsync: a kind that does not exist is cudaErrorInvalidMemcpyDirection") {
  Stream stream;
  OnGpu<int> device(kCount);
  Pinned<int> host(kCount);
  FAILS(cudaMemcpyAsync(device, host, kBytes, static_cast<cudaMemcpyKind>(17), stream),
        cudaErrorInvalidMemcpyDirection);
}

TEST_CASE("cudaMemcpyAsync: 0 bytes are no error") {
  Stream stream;
  OnGpu<int> device(kCount);
  Pinned<int> host(kCount);
  OK(cudaMemcpyAsync(device, host, 0, cudaMemcpyHostToDevice, stream));
  OK(cudaStreamSynchronize(stream));
}

TEST_CASE("cudaMemcpy: is complete when it returns, in both directions") {
  OnGpu<int> device(kCount);
  OK(cudaMemcpy(device, counted(2).data(), kBytes, cudaMemcpyHostToDevice));
  CHECK(fetch<int>(device, kCount) == counted(2));
}

TEST_CASE("cudaMemsetAsync: fills with the byte, and nothing beside the range") {
  Stream stream;
  OnGpu<unsigned char> device(64);
  OK(cudaMemsetAsync(device, 0x11, 64, stream));
  OK(cudaMemsetAsync(device + 8, 0x5A, 16, stream));
  OK(cudaStreamSynchronize(stream));
  const auto bytes = fetch<unsigned char>(device, 64);
  CHECK(bytes[7] == 0x11);
  CHECK(bytes[8] == 0x5A);
  CHECK(bytes[23] == 0x5A);
  CHECK(bytes[24] == 0x11);
}

TEST_CASE("cudaMemsetAsync: returns while earlier work is pending") {
  Stream stream;
  OnGpu<int> device(kCount);
  Gate gate;
  gate.close_on(stream);
  OK(cudaMemsetAsync(device, 0, kBytes, stream));
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  (void)cudaGetLastError();
  release(gate, stream);
}

TEST_CASE("cudaMemcpy2DAsync: copies rows of width bytes, whatever the pitches") {
  Stream stream;
  OnGpu<char> device(4 * 10);
  std::vector<char> dense(3 * 4), wide(3 * 6, '.');
  std::iota(dense.begin(), dense.end(), 'a');
  OK(cudaMemsetAsync(device, '-', 40, stream));
  OK(cudaMemcpy2DAsync(device, 10, dense.data(), 4, 4, 3, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpy2DAsync(wide.data(), 6, device, 10, 4, 3, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(std::string(wide.data(), 18) == "abcd..efgh..ijkl..");
  CHECK(fetch<char>(device, 40)[4] == '-');
}

TEST_CASE("cudaMemcpy2DAsync: width must not exceed a pitch") {
  Stream stream;
  OnGpu<char> device(64);
  Pinned<char> host(64);
  const cudaError_t error =
      cudaMemcpy2DAsync(device, 4, host, 8, 8, 2, cudaMemcpyHostToDevice, stream);
  (void)cudaGetLastError();
  const bool refused = error == cudaErrorInvalidPitchValue || error == cudaErrorInvalidValue;
  CHECK(refused);
}

TEST_CASE("cudaMemcpyPeerAsync: copies between devices without peer access enabled") {
  NEEDS_DEVICES(2);
  Stream stream;
  OnGpu<int> here(kCount);
  OK(cudaMemcpy(here, counted(7).data(), kBytes, cudaMemcpyHostToDevice));
  OnDevice on(1);
  OnGpu<int> there(kCount);
  OK(cudaSetDevice(0));
  OK(cudaMemcpyPeerAsync(there, 1, here, 0, kBytes, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(fetch<int>(there, kCount) == counted(7));
}

TEST_CASE("cudaMemcpyPeerAsync: a device that does not exist is cudaErrorInvalidDevice") {
  Stream stream;
  OnGpu<int> a(kCount), b(kCount);
  FAILS(cudaMemcpyPeerAsync(a, 9999, b, 0, kBytes, stream), cudaErrorInvalidDevice);
}

TEST_CASE("a memory copy succeeds on a stream of a device that is not current") {
  NEEDS_DEVICES(2);
  Stream stream;
  OnGpu<int> device(kCount);
  Pinned<int> host(kCount, 3);
  {
    OnDevice on(1);
    OK(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
    OK(cudaStreamSynchronize(stream));
  }
  CHECK(fetch<int>(device, kCount) == std::vector<int>(kCount, 3));
}
