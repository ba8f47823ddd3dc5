#include <filesystem>
#include <vector>

#include <tandem/core/error.h>
#include <tandem/core/ops/factories.h>
#include <tandem/data/cifar10.h>
#include <tandem/data/file.h>
#include <tandem/data/pixels.h>

namespace tandem::data {
namespace {

constexpr std::size_t kPlane = 32 * 32;  // bytes of one colour
constexpr std::size_t kRecord = 1 + 3 * kPlane;
constexpr int kLabels = 10;

/// Collects the records of one or more files.
class Records {
 public:
  explicit Records(const Cifar10Options& options) {
    for (std::size_t c = 0; c < 3; ++c) {
      values_[c] = pixel_values(options.mean[c], options.std[c], "cifar10");
    }
  }

  void add(std::string_view bytes, const std::string& name) {
    check(!bytes.empty(), "[cifar10] ", name, ": the file is empty");
    check(bytes.size() % kRecord == 0, "[cifar10] ", name, ": ", bytes.size(),
          " bytes are no whole records of ", kRecord, ". Is it the binary version?");
    x_.reserve(x_.size() + bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
      const unsigned char label = (unsigned char)bytes[at];
      check(label < kLabels, "[cifar10] ", name, ": label ", int(label), " of record ",
            at / kRecord, " is above 9");
      y_.push_back(label);
      for (std::size_t i = 0; i < 3 * kPlane; ++i) {
        x_.push_back(values_[i / kPlane][(unsigned char)bytes[at + 1 + i]]);
      }
    }
  }

  TensorDataset dataset() const {
    return {from_vector(x_, {std::int64_t(y_.size()), 3, 32, 32}), from_vector(y_)};
  }

 private:
  std::array<std::array<float, 256>, 3> values_;
  std::vector<float> x_;
  std::vector<std::int64_t> y_;
};

std::string find_records(const std::string& name, const std::string& root) {
  for (const std::string& folder : {root, root + "/cifar-10-batches-bin"}) {
    std::error_code ignored;
    std::string path = folder + "/" + name;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  throw UsageError(str("[cifar10] no ", name, " in '", root,
                       "'. Unpack cifar-10-binary.tar.gz (the binary version, not Python's) and "
                       "give its folder as root"));
}

}  // namespace

TensorDataset cifar10(const Cifar10Options& options) {
  check(!options.root.empty(),
        "[cifar10] no root given. Unpack cifar-10-binary.tar.gz and give its "
        "folder as root");
  Records records(options);
  if (options.train) {
    for (int i = 1; i <= 5; ++i) {
      const std::string path = find_records(str("data_batch_", i, ".bin"), options.root);
      records.add(read_file(path, "cifar10"), path);
    }
  } else {
    const std::string path = find_records("test_batch.bin", options.root);
    records.add(read_file(path, "cifar10"), path);
  }
  return records.dataset();
}

TensorDataset parse_cifar10(std::string_view bytes, const std::string& name,
                            const Cifar10Options& options) {
  Records records(options);
  records.add(bytes, name);
  return records.dataset();
}

}  // namespace tandem::data
