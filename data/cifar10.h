// CIFAR-10: 60,000 colour pictures, 32 x 32 pixels, ten classes, in its binary version:
// https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz
//
//   const data::TensorDataset train = data::cifar10({.root = "data"});                   // 50,000
//   const data::TensorDataset test = data::cifar10({.root = "data", .train = false});    // 10,000
//
// A file is a row of records: one byte label, then 32 x 32 bytes each of red, green and blue.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <tandem/data/dataset.h>

namespace tandem::data {

struct Cifar10Options {
  /// The folder of data_batch_1.bin and the others, or the one where the archive was unpacked, with
  /// cifar-10-batches-bin below.
  std::string root{};
  bool train = true;  // or the test set
  /// x = (pixel / 255 - mean) / std by channel; usual: 0.4914 0.4822 0.4465, 0.2470 0.2435 0.2616
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> std{1, 1, 1};
};

/// x (N, 3, 32, 32) float32, y (N) int64 from 0 to 9, on the thread's default device.
/// Throws UsageError: files that are missing (with what to do about it), a file that is not made of
/// whole records, labels above 9.
TensorDataset cifar10(const Cifar10Options& options);
/// The records of one file that is in memory; `name` is for messages, root and train are not used.
TensorDataset parse_cifar10(std::string_view bytes, const std::string& name,
                            const Cifar10Options& options = {});

}  // namespace tandem::data
