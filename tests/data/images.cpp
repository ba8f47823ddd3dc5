// Fashion-MNIST and CIFAR-10 from small files made here; the true ones where they are installed.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <tandem/core/error.h>
#include <tandem/data/cifar10.h>
#include <tandem/data/fashion_mnist.h>

#include "tests/support/check.h"
#include "tests/support/temporary_file.h"

using namespace tandem;
using namespace tandem::test;

namespace {

/// n pictures of 28 x 28: pixel p of picture i is (i + p) % 256.
std::string images(int n, int side = 28) {
  std::string text("\0\0\x08\x03\0\0\0", 7);
  text += char(n);
  text += std::string("\0\0\0", 3) + char(side) + std::string("\0\0\0", 3) + char(28);
  for (int i = 0; i < n; ++i) {
    for (int p = 0; p < side * 28; ++p) text += char((i + p) % 256);
  }
  return text;
}

std::string labels(const std::string& values) {
  return std::string("\0\0\x08\x01\0\0\0", 7) + char(values.size()) + values;
}

/// One record: pixel p of every colour c is (p + 10 c + label) % 256.
std::string record(int label) {
  std::string text(1, char(label));
  for (int c = 0; c < 3; ++c) {
    for (int p = 0; p < 1024; ++p) text += char((p + 10 * c + label) % 256);
  }
  return text;
}

double sum(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

TEST_CASE("fashion_mnist: pictures from 0 to 1 and int64 labels; train and test are apart") {
  const TemporaryFolder folder;
  folder.add("train-images-idx3-ubyte", images(3));
  folder.add("train-labels-idx1-ubyte", labels({9, 0, 4}));
  folder.add("t10k-images-idx3-ubyte", images(1));
  folder.add("t10k-labels-idx1-ubyte", labels({7}));
  const data::TensorDataset train = data::fashion_mnist({.root = folder.path()});
  CHECK(train.x.shape() == Shape{3, 1, 28, 28});
  CHECK(train.x.dtype() == float32);
  CHECK(train.y.to_vector<std::int64_t>() == std::vector<std::int64_t>{9, 0, 4});
  const std::vector<double> x = doubles(train.x);
  bool right = true;
  for (std::size_t i = 0; i < x.size(); ++i) {  // half a unit in the last place of float32
    right = right && std::abs(x[i] - double((i / 784 + i % 784) % 256) / 255) <= 3e-8;
  }
  CHECK(right);

  const data::TensorDataset test = data::fashion_mnist({.root = folder.path(), .train = false});
  CHECK(test.size() == 1);
  CHECK(test.y.to_vector<std::int64_t>() == std::vector<std::int64_t>{7});
}

TEST_CASE("fashion_mnist: mean and std are taken as PyTorch's Normalize takes them") {
  const TemporaryFolder folder;
  folder.add("FashionMNIST/raw/train-images-idx3-ubyte", images(1));  // torchvision's folders
  folder.add("FashionMNIST/raw/train-labels-idx1-ubyte", labels({1}));
  const data::TensorDataset train =
      data::fashion_mnist({.root = folder.path(), .mean = 0.25, .std = 0.5});
  const std::vector<double> x = doubles(train.x);
  CHECK(close(x[0], -0.5));
  CHECK(close(x[255], 1.5));
  CHECK(close(x[51], (0.2 - 0.25) / 0.5));
  for (const float std : {0.0f, -1.0f, NAN, INFINITY}) {
    CHECK(throws<UsageError>([&] { data::fashion_mnist({.root = folder.path(), .std = std}); },
                             {"[fashion_mnist]", "std above 0"}));
  }
}

TEST_CASE("fashion_mnist: a missing file is named with what to do about it") {
  const TemporaryFolder folder;
  folder.add("train-images-idx3-ubyte", images(1));
  CHECK(throws<UsageError>([&] { data::fashion_mnist({.root = folder.path()}); },
                           {"[fashion_mnist] no train-labels-idx1-ubyte", folder.path().c_str(),
                            "apt-get install dataset-fashion-mnist", "root"}));
}

TEST_CASE("fashion_mnist: files that do not belong together are refused") {
  const auto read = [](const std::string& x, const std::string& y) {
    const TemporaryFolder folder;
    folder.add("train-images-idx3-ubyte", x);
    folder.add("train-labels-idx1-ubyte", y);
    return data::fashion_mnist({.root = folder.path()});
  };
  CHECK(read(images(2), labels({1, 2})).size() == 2);
  CHECK(throws<UsageError>([&] { read(images(2), labels({1})); },
                           {"2 pictures", "1 labels", "idx1-ubyte"}));
  CHECK(throws<UsageError>(
      [&] {
        read(images(2), labels({1, 10}));
      },
      {"label 10 of picture 1 is above 9"}));
  CHECK(throws<UsageError>([&] { read(images(1, 27), labels({1})); },
                           {"(1, 27, 28) uint8, not pictures of 28 x 28"}));
  CHECK(throws<UsageError>([&] { read(labels({1}), labels({1})); }, {"(1,) uint8, not pictures"}));
  CHECK(throws<UsageError>([&] { read(images(1), images(1)); }, {"not a list of bytes"}));
}

#ifdef TANDEM_ZLIB
TEST_CASE("fashion_mnist: Debian's files are what Python reads in them, if they are installed") {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) return;
  const data::TensorDataset train = data::fashion_mnist(),
                            test = data::fashion_mnist({.train = false});
  CHECK(train.x.shape() == Shape{60000, 1, 28, 28});
  CHECK(test.x.shape() == Shape{10000, 1, 28, 28});
  const auto first = [](const data::TensorDataset& set) {
    const std::vector<std::int64_t> y = set.y.to_vector<std::int64_t>();
    return std::vector<std::int64_t>(y.begin(), y.begin() + 8);
  };
  CHECK(first(train) == std::vector<std::int64_t>{9, 0, 0, 3, 0, 2, 7, 2});
  CHECK(first(test) == std::vector<std::int64_t>{9, 2, 1, 1, 6, 1, 4, 6});
  // Sums of all bytes; dividing by 255 rounds each pixel by 3e-8 at most.
  CHECK(sum(train.x.to_vector<float>()) * 255 == doctest::Approx(3431114169).epsilon(1e-7));
  CHECK(sum(test.x.to_vector<float>()) * 255 == doctest::Approx(573469082).epsilon(1e-7));
}
#endif

TEST_CASE("cifar10: records of a label and three planes, over all files in order") {
  const TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.add("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin",
               record(i) + record(i + 4));
  }
  folder.add("cifar-10-batches-bin/test_batch.bin", record(0));
  const data::TensorDataset train = data::cifar10({.root = folder.path()});
  CHECK(train.x.shape() == Shape{10, 3, 32, 32});
  CHECK(train.y.to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{1, 5, 2, 6, 3, 7, 4, 8, 5, 9});
  const std::vector<double> x = doubles(train.x);
  bool right = true;
  for (std::size_t i = 0; i < 3072; ++i) {  // of the second record, whose label is 5
    const double pixel = double((i % 1024 + 10 * (i / 1024) + 5) % 256);
    right = right && std::abs(x[3072 + i] - pixel / 255) <= 3e-8;
  }
  CHECK(right);
  const std::string bin = folder.file("cifar-10-batches-bin");
  CHECK(data::cifar10({.root = bin, .train = false}).y.to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0});
}

TEST_CASE("cifar10: mean and std by channel") {
  const data::TensorDataset set =
      data::parse_cifar10(record(0), "x", {.mean = {0, 0.5, 0}, .std = {1, 1, 0.5}});
  const std::vector<double> x = doubles(set.x);
  CHECK(close(x[51], 0.2));
  CHECK(close(x[1024 + 41], 0.2 - 0.5));
  CHECK(close(x[2048 + 31], 0.2 / 0.5));
}

TEST_CASE("cifar10: a missing or damaged file is named with what to do about it") {
  const TemporaryFolder folder;
  CHECK(throws<UsageError>([] { data::cifar10({}); }, {"[cifar10]", "root"}));
  CHECK(throws<UsageError>([&] { data::cifar10({.root = folder.path()}); },
                           {"[cifar10] no data_batch_1.bin", "cifar-10-binary.tar.gz"}));
  folder.add("test_batch.bin", record(3) + "x");
  CHECK(throws<UsageError>([&] { data::cifar10({.root = folder.path(), .train = false}); },
                           {"test_batch.bin", "3074 bytes are no whole records of 3073"}));
  CHECK(throws<UsageError>([] { data::parse_cifar10("", "x.bin"); }, {"x.bin: the file is empty"}));
  CHECK(throws<UsageError>([] { data::parse_cifar10(record(3) + record(10), "x.bin"); },
                           {"x.bin: label 10 of record 1 is above 9"}));
}
