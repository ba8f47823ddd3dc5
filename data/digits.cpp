#include <utility>
#include <vector>

#include <tandem/core/error.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/random.h>
#include <tandem/data/csv.h>
#include <tandem/data/digits.h>

namespace tandem::data {
namespace {

constexpr std::int64_t kPixels = 64;
constexpr float kInk = 16;  // the darkest pixel
constexpr std::int64_t kTestRows = 360;

}  // namespace

TensorDataset read_digits(const std::string& path) {
  const Table table = read_csv(path, {.columns = kPixels + 1});
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  pixels.reserve(std::size_t(table.rows * kPixels));
  for (std::int64_t row = 0; row < table.rows; ++row) {
    for (std::int64_t i = 0; i < kPixels; ++i) {
      const float pixel = table.at(row, i);
      check(0 <= pixel && pixel <= kInk, "[read_digits] ", path, ", row ", row + 1, ": pixel ", i,
            " is ", pixel, ", not from 0 to ", kInk);
      pixels.push_back(pixel / kInk);
    }
    const float label = table.at(row, kPixels);
    check(0 <= label && label <= 9 && label == float(int(label)), "[read_digits] ", path, ", row ",
          row + 1, ": label ", label, " is not a digit");
    labels.push_back(std::int64_t(label));
  }
  return {from_vector(pixels, {table.rows, kPixels}), from_vector(labels)};
}

DigitsSplit split_digits(const TensorDataset& digits) {
  check(digits.size() > kTestRows, "[split_digits] ", digits.size(),
        " rows are too few: ", kTestRows, " are for testing");
  const std::vector<std::int64_t> order = Generator(0).permutation(digits.size());
  const auto subset = [&](auto begin, auto end) {
    auto [x, y] = digits.rows({begin, end});
    return TensorDataset(std::move(x), std::move(y));
  };
  const auto border = order.end() - kTestRows;
  return {subset(order.begin(), border), subset(border, order.end())};
}

}  // namespace tandem::data
