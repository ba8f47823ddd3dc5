// Fashion-MNIST: 70,000 grey pictures of clothes, 28 x 28 pixels, ten classes.
//
//   const data::TensorDataset train = data::fashion_mnist();                  // 60,000
//   const data::TensorDataset test = data::fashion_mnist({.train = false});   // 10,000
//
// MNIST and the other sets with the same file names are read too: give their folder as root.
#pragma once

#include <string>

#include <tandem/data/dataset.h>

namespace tandem::data {

struct FashionMnistOptions {
  /// The folder of train-images-idx3-ubyte and the others, plain or .gz; or torchvision's root,
  /// with FashionMNIST/raw below. Empty: where Debian's package dataset-fashion-mnist puts them.
  std::string root{};
  bool train = true;  // or the test set
  float mean = 0;     // x = (pixel / 255 - mean) / std; usual: 0.2860 and 0.3530
  float std = 1;
};

/// x (N, 1, 28, 28) float32, y (N) int64 from 0 to 9, on the thread's default device.
/// Throws UsageError: files that are missing (with what to do about it) or damaged, pictures of
/// another size, labels above 9, more pictures than labels or fewer.
TensorDataset fashion_mnist(const FashionMnistOptions& options = {});

}  // namespace tandem::data
