// The digits and their split. Sums, counts and orders come from PyTorch and Python on the same
// file.
#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <string>

#include <tandem/core/error.h>
#include <tandem/core/random.h>
#include <tandem/data/digits.h>

#include "tests/support/check.h"
#include "tests/support/temporary_file.h"

using namespace tandem;
using tandem::test::TemporaryFile;
using tandem::test::throws;

namespace {

/// Sixty-four zeros with one other pixel, and a label.
std::string row(const std::string& pixel, const std::string& label) {
  std::string text = pixel + ",";
  for (int i = 1; i < 64; ++i) text += "0,";
  return text + label + "\n";
}

data::TensorDataset read(const std::string& text) {
  const TemporaryFile file("digits.csv", text);
  return data::read_digits(file.path());
}

/// In units of a pixel: exact, since pixels are multiples of 1/16.
double ink(const Tensor& x) {
  const std::vector<float> values = x.to_vector<float>();
  return std::accumulate(values.begin(), values.end(), 0.0) * 16;
}

std::vector<int> counts(const Tensor& labels) {
  std::vector<int> of(10);
  for (const std::int64_t label : labels.to_vector<std::int64_t>()) ++of[std::size_t(label)];
  return of;
}

}  // namespace

TEST_CASE("read_digits: pixels from 0 to 1 and int64 labels") {
  const data::TensorDataset digits = read(row("16", "7") + row("4", "0"));
  CHECK(digits.size() == 2);
  CHECK(digits.x.shape() == Shape{2, 64});
  CHECK(digits.y.shape() == Shape{2});
  CHECK(digits.x.to_vector<float>()[0] == 1);
  CHECK(digits.x.to_vector<float>()[64] == 0.25f);
  CHECK(digits.y.to_vector<std::int64_t>() == std::vector<std::int64_t>{7, 0});
}

TEST_CASE("read_digits: a pixel or label out of range is named with its row") {
  CHECK(
      throws<UsageError>([] { read(row("0", "1") + row("17", "1")); }, {"row 2", "pixel 0", "17"}));
  CHECK(throws<UsageError>([] { read(row("-1", "1")); }, {"row 1", "-1"}));
  CHECK(throws<UsageError>([] { read(row("0", "10")); }, {"row 1", "label 10"}));
  CHECK(throws<UsageError>([] { read(row("0", "2.5")); }, {"row 1", "label 2.5"}));
  CHECK(throws<UsageError>([] { read("1,2,3\n"); }, {"line 1", "3 values instead of 65"}));
}

TEST_CASE("split_digits: 1437 rows to train and 360 to test, the ones that PyTorch picks") {
  const auto [train, test] = data::split_digits(data::read_digits(TANDEM_DIGITS));
  CHECK(train.size() == 1437);
  CHECK(test.size() == 360);
  std::vector<std::int64_t> first = test.y.to_vector<std::int64_t>();
  first.resize(10);
  CHECK(first == std::vector<std::int64_t>{2, 4, 8, 4, 9, 6, 8, 7, 7, 2});
  CHECK(counts(test.y) == std::vector<int>{28, 37, 30, 36, 39, 38, 34, 42, 38, 38});
  CHECK(counts(train.y) == std::vector<int>{150, 145, 147, 147, 142, 144, 147, 137, 136, 142});
  CHECK(ink(test.x) == 113060);
  CHECK(ink(train.x) == 448658);
}

TEST_CASE("split_digits: draws nothing from the default generator") {
  const data::TensorDataset digits = data::read_digits(TANDEM_DIGITS);
  manual_seed(0);
  data::split_digits(digits);
  CHECK(default_generator().random_int64() == 900450186894289455);  // PyTorch's first under seed 0
}

TEST_CASE("split_digits: a file without rows to train on is refused") {
  CHECK(throws<UsageError>([] { data::split_digits(read(row("1", "1"))); }, {"1 rows", "360"}));
}
