// Where logical devices lie must not matter: the same training on four GPUs with and without peer
// access, on one GPU, and two by two ends with the same bits. A process has one machine, so each
// trains in a process of its own.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdio>
#include <map>
#include <sstream>

#include "runtime/cudasim.h"
#include "tests/cuda/steps.h"
#include "tests/support/command.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr const char* kTraining = "topology: the bits of a training on four devices";
constexpr const char* kPeerCopies = "peer copies";

// What `kTraining` printed on a machine: "net, tensor" -> its values.
using Bits = std::map<std::string, std::string>;

Bits train_on(const std::string& machine) {
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  REQUIRE(length > 0);
  const std::string command = "env " + machine + " '" + std::string(program, std::size_t(length)) +
                              "' --no-skip --minimal '--test-case=" + kTraining + "'";
  std::istringstream said(output_of(command));  // 43: the simulator saw what no good program does
  Bits bits;
  for (std::string line; std::getline(said, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) bits[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return bits;
}

// %a: every bit of a float, and the sign of a zero.
void print(const char* net, const std::vector<std::vector<double>>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::printf("%s, %zu: ", net, i);
    for (const double v : tensors[i]) std::printf("%a ", v);
    std::printf("\n");
  }
}

}  // namespace

TEST_CASE("topology: the bits of a training on four devices" * doctest::skip()) {
  const std::vector<Device> devices = all_devices(cuda);
  REQUIRE(devices.size() == 4);
  print("mlp", train<Mlp>(devices, {10, 6}, 5));  // chunks of 3, 3, 3 and 1
  print("cnn", train<Cnn>(devices, {10, 2, 6, 6}, 5));
  std::printf("%s: %d\n", kPeerCopies, cudasim::calls("cudaMemcpyPeerAsync"));
}

TEST_CASE("topology: four GPUs, without peers, one GPU, and two by two train to the same bits") {
  Bits first = train_on("CUDASIM_DEVICES=4 CUDASIM_PEER_ACCESS=1 TANDEM_CUDA_DEVICES_PER_GPU=1");
  REQUIRE(first.size() > 10);
  const int verified = 2 * 4 * 3;  // at most two of each pair before it is trusted
  CHECK(std::stoi(first[kPeerCopies]) > verified);

  struct Machine {
    std::string title, environment;
    bool peers;
  };
  for (const Machine& machine :
       {Machine{"no peers", "CUDASIM_DEVICES=4 CUDASIM_PEER_ACCESS=0 TANDEM_CUDA_DEVICES_PER_GPU=1",
                false},
        {"one GPU", "CUDASIM_DEVICES=1 TANDEM_CUDA_DEVICES_PER_GPU=4", false},
        {"two by two", "CUDASIM_DEVICES=2 CUDASIM_PEER_ACCESS=1 TANDEM_CUDA_DEVICES_PER_GPU=2",
         true}}) {
    CAPTURE(machine.title);
    Bits other = train_on(machine.environment);
    CHECK((std::stoi(other[kPeerCopies]) > 0) == machine.peers);  // it is that machine
    other[kPeerCopies] = first[kPeerCopies];
    CHECK(other.size() == first.size());
    for (const auto& [name, bits] : first) {
      CAPTURE(name);
      CHECK(other[name] == bits);
    }
  }
}
