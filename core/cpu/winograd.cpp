// Winograd's minimal filtering F(2 x 2, 3 x 3).
//
// Two outputs y in a row depend on four inputs d and a filter g of three. There are matrices with
//   y = A' [(G g) (B' d)]        where (..)(..) multiplies element by element
// which takes 4 products instead of 6. For images, rows and columns are transformed: a tile of 2 x
// 2 outputs takes 16 products instead of 36. They are the same 16 for all channels, so sums over
// channels can be made before A' is applied, which leaves 16 matrix products
//   (tiles, C) (C, O)
// and they take most of the time. Everything else is additions, and halves of the weights.
//   A. Lavin, S. Gray: Fast algorithms for convolutional neural networks (2015), arXiv:1509.09308.
//
// The gradient of the input is such a convolution of dy, with weights turned by 180 degrees: G g is
// then in another order, no more. The gradient of a weight reads the same form from the other side,
//   dg = G' [(A dy) (B' d)]      summed over tiles, which is the inner dimension of the products.
//
// Rounding: sums and differences of inputs are multiplied, so what cancels leaves errors relative
// to the largest inputs under a filter. An infinite input, or sums that overflow, make NaN (inf -
// inf) where the definition may give something else; outputs that do not see them are as they
// should be.
#include <tandem/core/cpu/winograd.h>

#include <algorithm>
#include <array>
#include <vector>

#include <tandem/core/cpu/conv_shared.h>
#include <tandem/core/cpu/gemm.h>
#include <tandem/core/cpu/team.h>
#include <tandem/core/cpu/winograd_matrices.h>
#include <tandem/core/memory.h>
#include <tandem/core/numerics.h>

namespace tandem::host {

using namespace winograd_f2x3;

namespace {

constexpr std::int64_t kProducts = 16;
// Tiles that are computed together. The last block is filled up with zeros, so that a tile's bits
// do not depend on how many there are.
constexpr std::int64_t kBlock = 96;

// ---- images and tiles

// A channels-last batch.
template <class T>
struct Images {
  T* data;
  std::int64_t rows, columns, channels;

  T* at(std::int64_t sample, std::int64_t row, std::int64_t column) const {
    return data + ((sample * rows + row) * columns + column) * channels;
  }
  bool contains(std::int64_t row, std::int64_t column) const {
    return row >= 0 && row < rows && column >= 0 && column < columns;
  }
};

// 2 x 2 outputs, of which this is the first.
struct Tile {
  std::int64_t sample, row, column;
};

// The tiles of a batch of outputs.
struct Tiling {
  std::int64_t samples, rows, columns;

  Tiling(std::int64_t n, std::int64_t height, std::int64_t width)
      : samples(n), rows((height + 1) / 2), columns((width + 1) / 2) {}
  std::int64_t tiles() const { return samples * rows * columns; }
  std::int64_t blocks() const { return (tiles() + kBlock - 1) / kBlock; }
  Tile tile(std::int64_t i) const {
    return {i / (rows * columns), i / columns % rows * 2, i % columns * 2};
  }
};

// A square of N x N pixels; those outside of the image are zeros.
template <std::size_t N>
std::array<const float*, N * N> square(const Images<const float>& images, const Tile& tile,
                                       const Size2d& padding, const float* zeros) {
  std::array<const float*, N * N> places;
  for (std::size_t k = 0; k < N * N; ++k) {
    const std::int64_t row = tile.row - padding.h + std::int64_t(k / N),
                       column = tile.column - padding.w + std::int64_t(k % N);
    places[k] = images.contains(row, column) ? images.at(tile.sample, row, column) : zeros;
  }
  return places;
}

// 16 matrices (rows, channels). They begin in different sets of the cache, for a tile's 16 rows are
// written at once.
struct Matrices {
  Array memory;
  std::int64_t rows, channels;

  Matrices(std::int64_t n, std::int64_t c, Device device)
      : memory(Array::empty({kProducts * (n * c + 16)}, float32, device)), rows(n), channels(c) {}
  float* data(std::int64_t k) { return memory.fresh_data<float>() + k * (rows * channels + 16); }
  Matrix<float> operator[](std::int64_t k) { return {data(k), rows, channels, channels}; }
  Matrix<float> transposed(std::int64_t k) { return {data(k), rows, channels, channels, true}; }
  void operator+=(Matrices& other) {
    for (std::int64_t k = 0; k < kProducts; ++k) {
      float* to = data(k);
      const float* from = other.data(k);
      for (std::int64_t i = 0; i < rows * channels; ++i) to[i] += from[i];
    }
  }
  std::array<float*, kProducts> row(std::int64_t i) {
    std::array<float*, kProducts> list;
    for (std::int64_t k = 0; k < kProducts; ++k) list[std::size_t(k)] = data(k) + i * channels;
    return list;
  }
};

// A block of tiles of some images, transformed into the rows of 16 matrices.
template <auto kMatrix>
void transform_block(const Tiling& tiling, std::int64_t block, const Images<const float>& images,
                     const Size2d& padding, Matrices& out) {
  const std::vector<float> zeros(std::size_t(images.channels), 0.0f);
  for (std::int64_t t = 0; t < kBlock; ++t) {
    const std::int64_t i = block * kBlock + t;
    const auto to = out.row(t);
    if (i >= tiling.tiles()) {
      for (float* row : to) std::fill_n(row, images.channels, 0.0f);
      continue;
    }
    const auto from = square<kIn<kMatrix>>(images, tiling.tile(i), padding, zeros.data());
    transform_row<kMatrix>(from, to, images.channels);
  }
}

// The outputs of a block of tiles, from the sums over channels of their 16 products.
void write_block(const Tiling& tiling, std::int64_t block, Matrices& sums, const float* bias,
                 const Images<float>& images) {
  const std::int64_t end = std::min(kBlock, tiling.tiles() - block * kBlock);
  for (std::int64_t t = 0; t < end; ++t) {
    const auto from = sums.row(t);
    const Tile tile = tiling.tile(block * kBlock + t);
    for_each_lane(images.channels, [&](const auto& lane) {
      const Row<4> y = transformed<output>(load_all(lane, from));
      const Floats start = bias ? lane.load(bias) : Floats(0.0f);
      for (std::size_t k = 0; k < 4; ++k) {
        const std::int64_t row = tile.row + std::int64_t(k / 2),
                           column = tile.column + std::int64_t(k % 2);
        if (!images.contains(row, column)) continue;
        lane.store(y[k] + start, images.at(tile.sample, row, column));
      }
    });
  }
}

// ---- weights

// The nine numbers of each channel, as nine rows of channels, for the weights of one output.
class Filter {
 public:
  explicit Filter(const Array& w)
      : channels_(w.size(1)), strides_(w.strides()), room_(std::size_t(9 * channels_)) {}

  void load(const float* w, std::int64_t output) {
    for_each([&](std::int64_t in_w, float& here) { here = w[in_w]; }, output);
  }
  void store(float* w, std::int64_t output) {
    for_each([&](std::int64_t in_w, float& here) { w[in_w] = here; }, output);
  }
  std::array<float*, 9> rows() {
    std::array<float*, 9> list;
    for (std::size_t k = 0; k < 9; ++k) list[k] = room_.data() + std::int64_t(k) * channels_;
    return list;
  }

 private:
  template <class F>
  void for_each(F f, std::int64_t output) {
    for (std::int64_t k = 0; k < 9; ++k) {
      const std::int64_t first = output * strides_[0] + k / 3 * strides_[2] + k % 3 * strides_[3];
      float* row = room_.data() + k * channels_;
      for (std::int64_t c = 0; c < channels_; ++c) f(first + c * strides_[1], row[c]);
    }
  }

  std::int64_t channels_;
  Shape strides_;
  std::vector<float> room_;
};

// G w G' as 16 matrices (O, C).
Matrices transform_weights(const Array& w) {
  Matrices all(w.size(0), w.size(1), w.device());
  Filter filter_of_output(w);
  for (std::int64_t o = 0; o < w.size(0); ++o) {
    filter_of_output.load(w.data<float>(), o);
    transform_row<filter>(filter_of_output.rows(), all.row(o), w.size(1));
  }
  return all;
}

// dw = G' sums G.
void write_weights(Matrices& sums, Array& dw) {
  Filter filter_of_output(dw);
  for (std::int64_t o = 0; o < dw.size(0); ++o) {
    transform_row<filter_transposed>(sums.row(o), filter_of_output.rows(), dw.size(1));
    filter_of_output.store(dw.fresh_data<float>(), o);
  }
}

// Which of the 16 takes its place if the weights are turned by 180 degrees.
std::int64_t turned(std::int64_t k) {
  const auto other = [](std::int64_t i) { return i == 0 ? 3 : i == 3 ? 0 : i; };
  return other(k / 4) * 4 + other(k % 4);
}

// ---- the three directions

Images<const float> images_of(const Array& a) {
  return {a.data<float>(), a.size(2), a.size(3), a.size(1)};
}

double nanoseconds(const Tiling& tiling, const Array& w) {
  return 0.03 * double(tiling.tiles() * kProducts) * double(w.size(0) * w.size(1));
}

// y = w x, or the gradient of the input.
void convolve(const Array& x, const Size2d& padding, const Array& w, bool turn, const Array& bias,
              Array& y, Backend& backend) {
  const CategoryScope scope(Category::workspace);
  const Array in = lying(x, MemoryFormat::channels_last);
  const bool own = y.is_contiguous(MemoryFormat::channels_last);
  Array out = own ? y : Array::empty(y.shape(), float32, y.device(), MemoryFormat::channels_last);
  const Images<const float> from = images_of(in);
  const Images<float> to{out.fresh_data<float>(), y.size(2), y.size(3), y.size(1)};
  const Tiling tiling(y.size(0), y.size(2), y.size(3));
  const Array start = bias.defined() ? bias.contiguous() : bias;
  Matrices weights = transform_weights(w);
  for_each_range(
      y.device(), tiling.blocks(), nanoseconds(tiling, w),
      [&](std::int64_t block, std::int64_t end) {
        Matrices tiles(kBlock, from.channels, y.device());
        Matrices sums(kBlock, to.channels, y.device());
        for (; block < end; ++block) {
          transform_block<input>(tiling, block, from, padding, tiles);
          for (std::int64_t k = 0; k < kProducts; ++k) {
            product(y.device(), tiles[k], turn ? weights[turned(k)] : weights.transposed(k),
                    sums.data(k), to.channels, false);
          }
          write_block(tiling, block, sums, start.defined() ? start.data<float>() : nullptr, to);
        }
      });
  if (!own) backend.copy(out, y);
}

}  // namespace

bool winograd_takes(const Window2d& window, std::int64_t groups, const Array& w, const Shape& y) {
  const Size2d one(1), three(3);
  if (!allow_winograd() || w.dtype() != float32 || groups != 1 || window.kernel != three ||
      window.stride != one || window.dilation != one || window.padding.h > 2 ||
      window.padding.w > 2) {
    return false;
  }
  // Measured with AVX2: below 32 channels the transformations take longer than the products save.
  const Tiling tiling(y[0], y[2], y[3]);
  const bool mostly_full = tiling.tiles() > 0 && 3 * tiling.tiles() >= 2 * kBlock * tiling.blocks();
  return w.size(0) >= 32 && w.size(1) >= 32 && mostly_full;
}

void winograd(const Window2d& window, const Array& x, const Array& w, const Array& bias, Array& y,
              Backend& backend) {
  convolve(x, window.padding, w, false, bias, y, backend);
}

void winograd_grad_input(const Window2d& window, const Array& w, const Array& dy, Array& dx,
                         Backend& backend) {
  convolve(dy, {2 - window.padding.h, 2 - window.padding.w}, w, true, {}, dx, backend);
}

void winograd_grad_weight(const Window2d& window, const Array& x, const Array& dy, Array& dw) {
  const CategoryScope scope(Category::workspace);
  const Array in = lying(x, MemoryFormat::channels_last),
              grads = lying(dy, MemoryFormat::channels_last);
  const Images<const float> from = images_of(in), to = images_of(grads);
  const Tiling tiling(dy.size(0), dy.size(2), dy.size(3));
  const std::int64_t parts = weight_parts(dw.shape(), dy.shape(), dw.dtype());
  std::vector<Matrices> sums;
  for (std::int64_t p = 0; p < parts; ++p) sums.emplace_back(dw.size(0), dw.size(1), dw.device());
  for_each_part(dw.device(), int(parts), [&](int p) {
    Matrices tiles(kBlock, from.channels, dw.device());
    Matrices grads_of_tiles(kBlock, to.channels, dw.device());
    const std::int64_t begin = tiling.blocks() * p / parts, end = tiling.blocks() * (p + 1) / parts;
    for (std::int64_t block = begin; block < end; ++block) {
      transform_block<input>(tiling, block, from, window.padding, tiles);
      transform_block<output_transposed>(tiling, block, to, 0, grads_of_tiles);
      for (std::int64_t k = 0; k < kProducts; ++k) {
        product(dw.device(), grads_of_tiles.transposed(k), tiles[k], sums[std::size_t(p)].data(k),
                from.channels, block > begin);
      }
    }
  });
  for (std::size_t p = 1; p < sums.size(); ++p) sums[0] += sums[p];
  write_weights(sums[0], dw);
}

}  // namespace tandem::host
