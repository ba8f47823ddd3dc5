// Conformance of devices: selection, properties, peer access.
#include "conformance/support.h"

using namespace conformance;

TEST_CASE("cudaGetDeviceCount: there is at least one device") {
  int count = -1;
  OK(cudaGetDeviceCount(&count));
  CHECK(count >= 1);
}

TEST_CASE("cudaGetDevice: a host thread starts on device 0") {
  int device = -1;
  std::thread([&] { cudaGetDevice(&device); }).join();
  CHECK(device == 0);
}

TEST_CASE("cudaSetDevice: sets the device of the calling thread only") {
  NEEDS_DEVICES(2);
  OnDevice on(1);
  int here = -1, elsewhere = -1;
  OK(cudaGetDevice(&here));
  std::thread([&] { cudaGetDevice(&elsewhere); }).join();
  CHECK(here == 1);
  CHECK(elsewhere == 0);
}

TEST_CASE("cudaSetDevice: valid ids are 0 to cudaGetDeviceCount() - 1") {
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  FAILS(cudaSetDevice(count), cudaErrorInvalidDevice);
  FAILS(cudaSetDevice(-1), cudaErrorInvalidDevice);
  OK(cudaSetDevice(count - 1));
  OK(cudaSetDevice(0));
}

TEST_CASE("cudaSetDevice: memory allocated afterwards lies on that device") {
  NEEDS_DEVICES(2);
  OnDevice on(1);
  OnGpu<char> memory(16);
  cudaPointerAttributes attributes{};
  OK(cudaPointerGetAttributes(&attributes, memory));
  CHECK(attributes.device == 1);
}

TEST_CASE("cudaGetDeviceProperties: agrees with cudaDeviceGetAttribute") {
  cudaDeviceProp p{};
  OK(cudaGetDeviceProperties(&p, 0));
  auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    OK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
  };
  CHECK(p.warpSize == attribute(cudaDevAttrWarpSize));
  CHECK(p.maxThreadsPerBlock == attribute(cudaDevAttrMaxThreadsPerBlock));
  CHECK(p.maxThreadsDim[2] == attribute(cudaDevAttrMaxBlockDimZ));
  CHECK(p.maxGridSize[1] == attribute(cudaDevAttrMaxGridDimY));
  CHECK(p.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount));
  CHECK(p.major == attribute(cudaDevAttrComputeCapabilityMajor));
  CHECK(p.minor == attribute(cudaDevAttrComputeCapabilityMinor));
  CHECK(int(p.sharedMemPerBlock) == attribute(cudaDevAttrMaxSharedMemoryPerBlock));
  CHECK(int(p.sharedMemPerBlockOptin) == attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

TEST_CASE("compute capabilities: warps of 32, blocks of up to 1024 threads, 64 of them in z") {
  cudaDeviceProp p{};
  OK(cudaGetDeviceProperties(&p, 0));
  CHECK(p.warpSize == 32);
  CHECK(p.maxThreadsPerBlock == 1024);
  CHECK(p.maxThreadsDim[2] == 64);
  CHECK(p.maxGridSize[0] == 2147483647);
  CHECK(p.maxGridSize[1] == 65535);
}

TEST_CASE("cudaGetDeviceProperties: a device that does not exist is cudaErrorInvalidDevice") {
  cudaDeviceProp p{};
  FAILS(cudaGetDeviceProperties(&p, 9999), cudaErrorInvalidDevice);
}

TEST_CASE("cudaDeviceGetAttribute: a device that does not exist is cudaErrorInvalidDevice") {
  int value = 0;
  FAILS(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9999), cudaErrorInvalidDevice);
}

TEST_CASE("cudaDeviceGetStreamPriorityRange: lower numbers are greater, either may be null") {
  int least = -99, greatest = 99;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest <= least);
  OK(cudaDeviceGetStreamPriorityRange(nullptr, &greatest));
  OK(cudaDeviceGetStreamPriorityRange(&least, nullptr));
}

TEST_CASE("cudaRuntimeGetVersion: the major version of the headers") {
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  CHECK(version / 1000 == CUDART_VERSION / 1000);
}

TEST_CASE("cudaDriverGetVersion: not 0 where there is a driver") {
  int version = 0;
  OK(cudaDriverGetVersion(&version));
  CHECK(version > 0);
}

TEST_CASE("cudaDeviceCanAccessPeer: a device is not its own peer") {
  int can = -1;
  OK(cudaDeviceCanAccessPeer(&can, 0, 0));
  CHECK(can == 0);
}

TEST_CASE("cudaDeviceCanAccessPeer: a device that does not exist is cudaErrorInvalidDevice") {
  int can = -1;
  FAILS(cudaDeviceCanAccessPeer(&can, 0, 9999), cudaErrorInvalidDevice);
}

TEST_CASE("cudaDeviceEnablePeerAccess: cudaErrorInvalidDevice where access is impossible") {
  FAILS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
}

TEST_CASE("cudaDeviceEnablePeerAccess: flags must be 0") {
  NEEDS_PEER_ACCESS();
  FAILS(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
}

TEST_CASE("cudaDeviceEnablePeerAccess: twice is cudaErrorPeerAccessAlreadyEnabled") {
  NEEDS_PEER_ACCESS();
  OK(cudaDeviceEnablePeerAccess(1, 0));
  FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  OK(cudaDeviceDisablePeerAccess(1));
}

TEST_CASE("cudaDeviceEnablePeerAccess: is unidirectional") {
  NEEDS_PEER_ACCESS();
  OK(cudaDeviceEnablePeerAccess(1, 0));
  {
    OnDevice on(1);
    FAILS(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
  }
  OK(cudaDeviceDisablePeerAccess(1));
}

TEST_CASE("cudaDeviceDisablePeerAccess: cudaErrorPeerAccessNotEnabled if it was not enabled") {
  NEEDS_PEER_ACCESS();
  FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
}
