// Prints how many PTX instructions per second the interpreter executes with all its checks on. No
// test: the number depends on the machine and on who else uses it.
#include "kernels/ptx_device.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

using namespace cudasim::ptx;

namespace {

constexpr std::size_t kN = 200'000;

template <class... A>
void measure(const char* file, const char* kernel, std::size_t shared, Dim3 grid, A... arguments) {
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    PtxDevice device(file, "sm_90");
    auto buffer = [&](std::size_t n) { return device.upload(std::vector<float>(n, 0.5f)); };
    const std::clock_t start = std::clock();
    const auto findings = device.launch(kernel, grid, {256}, shared, arguments(buffer)...);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    best = std::max(best, static_cast<double>(device.instructions()) / seconds);
    if (!findings.empty()) std::printf("%s", to_string(findings).c_str());
  }
  std::printf("%-24s %6.1f M instructions/s\n", kernel, best / 1e6);
}

}  // namespace

int main() {
  const auto array = [](auto buffer) { return buffer(kN); };
  const auto count = [](auto) { return kN; };
  const auto columns = [](auto) { return 1000; };
  measure("pointwise", "relu_kernel", 0, {64}, array, array, count);
  measure("pointwise", "gelu_kernel", 0, {64}, array, array, count);
  measure(
      "optimizer", "sgd_momentum_kernel", 0, {64}, array, array, array, count,
      [](auto) { return 0.1f; }, [](auto) { return 0.9f; });
  measure("reduce", "partial_sum_kernel", 1024, {64}, array, array, count);
  measure("reduce", "row_sum_kernel", 0, {200}, array, array, columns);
  measure("reduce", "softmax_kernel", 0, {200}, array, array, columns);
  measure("reduce", "row_statistics_kernel", 0, {200}, array, array, array, columns);
}
