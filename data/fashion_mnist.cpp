#include <filesystem>
#include <utility>
#include <vector>

#include <tandem/core/error.h>
#include <tandem/core/ops/factories.h>
#include <tandem/data/fashion_mnist.h>
#include <tandem/data/idx.h>
#include <tandem/data/pixels.h>

namespace tandem::data {
namespace {

constexpr char kDebian[] = "/usr/share/datasets/fashion-mnist";
constexpr std::int64_t kSide = 28;
constexpr int kClasses = 10;

/// The file called `name`, or `name`.gz, in a folder that it may be in.
std::string find_idx(const std::string& name, const std::string& root) {
  for (const std::string& folder : {root, root + "/FashionMNIST/raw"}) {
    for (const char* ending : {"", ".gz"}) {
      std::error_code ignored;
      std::string path = folder + "/" + name + ending;
      if (std::filesystem::exists(path, ignored)) return path;
    }
  }
  throw UsageError(str("[fashion_mnist] no ", name, " and no ", name, ".gz in '", root,
                       "'. Debian and Ubuntu have them: apt-get install dataset-fashion-mnist; or "
                       "give their folder as root"));
}

}  // namespace

TensorDataset fashion_mnist(const FashionMnistOptions& options) {
  const std::array<float, 256> value = pixel_values(options.mean, options.std, "fashion_mnist");
  const std::string root = options.root.empty() ? kDebian : options.root;
  const std::string prefix = options.train ? "train" : "t10k";
  const std::string images_path = find_idx(prefix + "-images-idx3-ubyte", root);
  const std::string labels_path = find_idx(prefix + "-labels-idx1-ubyte", root);

  const Tensor images = read_idx(images_path);
  check(images.dtype() == uint8 && images.dim() == 3 && images.size(1) == kSide &&
            images.size(2) == kSide,
        "[fashion_mnist] ", images_path, ": ", images.shape(), " ", images.dtype(),
        ", not pictures of 28 x 28 bytes");
  const Tensor labels = read_idx(labels_path);
  check(labels.dtype() == uint8 && labels.dim() == 1, "[fashion_mnist] ", labels_path, ": ",
        labels.shape(), " ", labels.dtype(), ", not a list of bytes");
  check(images.size(0) == labels.size(0), "[fashion_mnist] ", images.size(0), " pictures in ",
        images_path, ", but ", labels.size(0), " labels in ", labels_path);

  std::vector<float> x;
  std::vector<std::int64_t> y;
  x.reserve(std::size_t(images.numel()));
  for (const std::uint8_t pixel : images.to_vector<std::uint8_t>()) x.push_back(value[pixel]);
  for (const std::uint8_t label : labels.to_vector<std::uint8_t>()) {
    check(label < kClasses, "[fashion_mnist] ", labels_path, ": label ", int(label), " of picture ",
          y.size(), " is above 9");
    y.push_back(label);
  }
  return {from_vector(x, {images.size(0), 1, kSide, kSide}), from_vector(y)};
}

}  // namespace tandem::data
