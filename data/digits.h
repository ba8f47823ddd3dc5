// The digits that the samples train on: 8 x 8 pixels, ten classes. See samples/data/README.md.
#pragma once

#include <string>

#include <tandem/data/dataset.h>

namespace tandem::data {

/// Reads rows of 64 pixels from 0 to 16 and a label from 0 to 9; .csv or .csv.gz.
/// x (N, 64) float32 from 0 to 1, y (N) int64, on the thread's default device.
/// Throws UsageError as read_csv() does, and for a pixel or label out of range, naming the row.
TensorDataset read_digits(const std::string& path);

struct DigitsSplit {
  TensorDataset train, test;
};

/// Test on the last 360 rows after randperm() under seed 0, train on the others: for the file of
/// the repository 1,437 and 360. Leaves default_generator() alone. REQUIRES: more than 360 rows.
DigitsSplit split_digits(const TensorDataset& digits);

}  // namespace tandem::data
