// How work is described to kernels: division by known numbers, and pieces that 32 bits can count.
#include <doctest/doctest.h>

#include <tandem/core/cuda/dropout_pieces.h>
#include <tandem/core/cuda/layout.h>
#include <tandem/core/cuda/rows.h>

#include "tests/support/check.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Loops2 = Loops<2>;

// Two operands of `sizes`, the outermost first: one row-major, one with its dimensions reversed.
Loops2 large(const std::vector<std::int64_t>& sizes) {
  const Array one = Array::empty({1}, uint8, cpu(0));
  Loops2 loops({&one, &one});
  loops.dim = int(sizes.size());
  std::int64_t row_major = 1, reversed = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::size_t last = sizes.size() - 1 - d;
    loops.size[d] = sizes[d];
    loops.stride[0][last] = row_major;
    loops.stride[1][d] = reversed;
    row_major *= sizes[last];
    reversed *= sizes[d];
  }
  return loops;
}

struct Piece {
  Loops2 loops;
  std::array<std::int64_t, 2> offsets;

  std::int64_t numel() const {
    std::int64_t n = 1;
    for (int d = 0; d < loops.dim; ++d) n *= loops.size[std::size_t(d)];
    return n;
  }
  // One past the last element that operand k touches, from its offset on.
  std::int64_t span(std::size_t k) const {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < std::size_t(loops.dim); ++d) {
      last += (loops.size[d] - 1) * loops.stride[k][d];
    }
    return last + 1;
  }
  // Where the whole's element at `index` lies in operand k, if it is one of this piece.
  bool holds(const Loops2& whole, const std::vector<std::int64_t>& index) const {
    std::int64_t start = offsets[0];
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t first = start / whole.stride[0][d];
      start -= first * whole.stride[0][d];
      if (index[d] < first || index[d] >= first + loops.size[d]) return false;
    }
    return true;
  }
};

std::vector<Piece> pieces_of(const Loops2& loops) {
  std::vector<Piece> pieces;
  gpu::for_each_piece(loops, [&](const Loops2& piece, const std::array<std::int64_t, 2>& offsets) {
    pieces.push_back({piece, offsets});
  });
  return pieces;
}

}  // namespace

TEST_CASE("layout: a Divisor divides everything that a launch may count") {
  const std::uint32_t most = gpu::kMostElements;
  std::vector<std::uint32_t> numbers = {1, 2, 3, 5, 7, 255, 256, 257, most - 1, most};
  for (std::uint64_t i = 0; i < 300; ++i) {
    const double u = hash_uniform(1, i);
    numbers.push_back(1 + std::uint32_t(u * double(most >> (i % 31))));
    numbers.push_back(std::uint32_t(1) << (i % 31));
  }
  for (std::uint32_t d : numbers) {
    const gpu::Divisor divisor(d);
    for (std::uint32_t n : numbers) {
      const std::uint32_t multiple = n / d * d;
      for (std::uint32_t x : {n, n - 1, multiple, multiple > 0 ? multiple - 1 : 0}) {
        if (divisor.divide(x) != x / d) FAIL(x, " / ", d, " gives ", divisor.divide(x));
      }
    }
  }
}

TEST_CASE("layout: larger work is cut into pieces that hold every element once") {
  const std::vector<std::vector<std::int64_t>> shapes = {{std::int64_t(1) << 33},
                                                         {std::int64_t(3) << 31, 2},
                                                         {5, 70000, 30001},
                                                         {100000, 100000},
                                                         {2147483647},
                                                         {2147483648}};
  for (const auto& sizes : shapes) {
    const Loops2 whole = large(sizes);
    const std::vector<Piece> pieces = pieces_of(whole);
    CAPTURE(sizes.size());
    CAPTURE(sizes[0]);
    std::int64_t numel = 0, expected = 1;
    for (std::int64_t size : sizes) expected *= size;
    for (const Piece& piece : pieces) {
      numel += piece.numel();
      CHECK(piece.numel() <= gpu::kMostElements);
      CHECK(piece.span(0) <= std::int64_t(1) << 32);
      CHECK(piece.span(1) <= std::int64_t(1) << 32);
    }
    CHECK(numel == expected);
    CHECK((pieces.size() == 1) == (expected <= gpu::kMostElements));
    for (std::uint64_t i = 0; i < 100; ++i) {
      std::vector<std::int64_t> index;
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        index.push_back(std::int64_t(hash_uniform(d, i) * double(sizes[d])));
      }
      int holders = 0;
      for (const Piece& piece : pieces) holders += piece.holds(whole, index);
      CHECK(holders == 1);
    }
  }
}

TEST_CASE("layout: pieces of one long run stay aligned for packs") {
  for (const Piece& piece : pieces_of(large({(std::int64_t(1) << 33) + 5}))) {
    CHECK(piece.offsets[0] % 16 == 0);
  }
}

TEST_CASE("layout: a number becomes a smaller one if it fits, else an error names op and number") {
  CHECK(gpu::narrow<int>("test", 2147483647) == 2147483647);
  CHECK(gpu::narrow<std::uint32_t>("test", 0xffffffff) == 0xffffffffu);
  const auto refused = [](auto&& f) { return throws<UsageError>(f, {"[test]", "is too large"}); };
  CHECK(refused([] { gpu::narrow<int>("test", 2147483648); }));
  CHECK(refused([] { gpu::narrow<std::uint32_t>("test", std::int64_t(1) << 32); }));
  CHECK(refused([] { gpu::narrow<std::uint32_t>("test", -1); }));
  CHECK(refused([] { gpu::narrow<int>("test", 11, 10); }));
}

// 4 GB of which nothing is touched. Every second element of it is a row: two elements, 2^32 apart.
TEST_CASE("layout: rows may have strides beyond 32 bits") {
  const std::int64_t far = std::int64_t(1) << 32;
  const Array block = Array::empty({far + 8}, uint8, cpu(0));
  const Array x = block.as_strided({4, 2}, {2, far}, 1);
  int calls = 0;
  gpu::for_each_rows<1>({&x}, [&](const gpu::RowPlaces<1>& places, const auto& offset) {
    ++calls;
    CHECK(places.rows.numel == 4);
    CHECK(places.rows.stride[0][0] == 2);
    CHECK(places.length == 2);
    CHECK(places.stride[0] == far);
    CHECK(offset[0] == 0);
  });
  CHECK(calls == 1);
  memory::empty_cache(cpu(0));
}

TEST_CASE("layout: images that 32 bits cannot count are refused, or cut into pieces") {
  const std::int64_t far = std::int64_t(1) << 32;
  const auto cut = [](std::int64_t images, std::int64_t channels, std::int64_t pixels) {
    std::int64_t at = 0;
    gpu::for_each_images(5, images, channels, pixels, [&](std::int64_t first, const auto& part) {
      CHECK(first == at);
      CHECK(part.first_row == 5 + at);
      CHECK(part.images * part.shares_of_one() <= gpu::kMostElements);
      at += part.images;
    });
    CHECK(at == images);
  };
  cut(3, 4, 7);
  cut(1000, 300, 100001);
  for (const auto& [channels, pixels] : {std::pair{std::int64_t(2), far},
                                         {far, std::int64_t(2)},
                                         {std::int64_t(2), far + 3},
                                         {std::int64_t(8), far / 4}}) {
    CHECK(throws<UsageError>([&, c = channels, p = pixels] { cut(2, c, p); },
                             {"[dropout]", "too large"}));
  }
}
