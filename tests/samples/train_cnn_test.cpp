// The sample train_cnn, as people run it: five steps on simulated GPUs end where the CPU's do.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "tests/support/check.h"
#include "tests/support/command.h"
#include "tests/support/temporary_file.h"

#include <tandem/tandem.h>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Trained {
  std::string says;
  nn::StateDict weights;
};

// 160 rows to train on, five batches of 32, and the 360 for testing.
std::string few_digits(const TemporaryFolder& folder) {
  const std::string path = folder.file("few.csv");
  std::ifstream all(TANDEM_DIGITS);
  std::ofstream few(path);
  std::string line;
  for (int i = 0; i < 160 + 360 && std::getline(all, line); ++i) few << line << "\n";
  return path;
}

Trained run(const char* program, const std::string& devices, const TemporaryFolder& folder) {
  const std::string weights = folder.file("weights.safetensors");
  const std::string says =
      output_of(std::string("'") + program + "' --epochs 1 --batch 32 --data '" +
                few_digits(folder) + "' --devices " + devices + " --save '" + weights + "' 2>&1");
  return {says, io::load_state_dict(weights)};
}

double epoch_loss(const Trained& trained) {
  const std::string word = "epoch  1  loss ";
  const std::size_t at = trained.says.find(word);
  REQUIRE(at != std::string::npos);
  return std::stod(trained.says.substr(at + word.size()));
}

// The CPU convolves by plain sums, as the GPU does: Winograd's method rounds more. Adam moves a
// weight by up to lr = 1e-3 a step, whatever the size of its gradient: where that is hardly more
// than rounding, rounding is seen. So a single weight may be off by a hundredth of the five steps,
// and all of them together by a thousandth of one.
void check_equal(const Trained& gpu, const Trained& cpu) {
  CHECK(contains(gpu.says, "cuda:0"));
  CHECK(std::abs(epoch_loss(gpu) - epoch_loss(cpu)) <= 2e-4);
  REQUIRE(gpu.weights.size() == cpu.weights.size());
  for (const auto& [name, expected] : cpu.weights) {
    CAPTURE(name);
    const std::vector<double> a = doubles(gpu.weights.at(name)), b = doubles(expected);
    REQUIRE(a.size() == b.size());
    double most = 0, sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, std::abs(a[i] - b[i]));
      sum += (a[i] - b[i]) * (a[i] - b[i]);
    }
    CHECK(most <= 5e-5);
    CHECK(std::sqrt(sum / double(a.size())) <= 1e-6);
  }
}

}  // namespace

TEST_CASE("train_cnn: five steps on one and on two simulated GPUs equal the CPU's") {
  const TemporaryFolder folder;
  setenv("TANDEM_WINOGRAD", "0", 1);
  const Trained cpu = run(TANDEM_TRAIN_CNN, "cpu:0", folder);
  CHECK(contains(cpu.says, "cpu:0"));
  check_equal(run(TANDEM_TRAIN_CNN_ON_CUDASIM, "cuda:0", folder), cpu);
  check_equal(run(TANDEM_TRAIN_CNN_ON_CUDASIM, "cuda:0,cuda:1", folder), cpu);
}
