// Chapter 1, and rows 2.1 (S1 ...) of PyTorch's own tests.
#include "tests/parallel/models.h"

namespace tandem::test {
using parallel::ChunkRule;
using parallel::scatter;
using parallel::split_rows;

namespace {
std::vector<std::int64_t> sizes(std::int64_t rows, int devices,
                                const parallel::ChunkOptions& o = {}) {
  const parallel::Split s = split_rows(rows, devices, o);
  std::vector<std::int64_t> list;
  for (int r = 0; r < s.ranks(); ++r) list.push_back(s.rows(r));
  return list;
}
using Sizes = std::vector<std::int64_t>;
}  // namespace

TEST_CASE("scatter: 10 rows on 4 devices give 3 3 2 2") {
  CHECK(sizes(10, 4) == Sizes{3, 3, 2, 2});
}

TEST_CASE("X1 scatter: balanced chunks cover all rows in order and differ by at most one") {
  for (std::int64_t n = 0; n <= 64; ++n) {
    for (int k = 1; k <= 8; ++k) {
      const Sizes s = sizes(n, k);
      REQUIRE(std::int64_t(s.size()) == k);
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < s.size(); ++i) {
        sum += s[i];
        if (i > 0) CHECK(s[i] <= s[i - 1]);
      }
      CHECK(sum == n);
      CHECK(s.front() - s.back() <= 1);
    }
  }
}

TEST_CASE("X1 scatter: the ceil rule gives PyTorch's chunks for all N to 64 and K to 8") {
  for (std::int64_t n = 0; n <= 64; ++n) {
    for (int k = 1; k <= 8; ++k) {
      const std::int64_t chunk = (n + k - 1) / k;  // the rule, written as the reference has it
      Sizes expected;
      for (std::int64_t at = 0; int(expected.size()) < k; at += chunk) {
        expected.push_back(std::max<std::int64_t>(0, std::min(chunk, n - at)));
      }
      CHECK(sizes(n, k, {.rule = ChunkRule::ceil}) == expected);
    }
  }
  CHECK(sizes(13, 4, {.rule = ChunkRule::ceil}) == Sizes{4, 4, 4, 1});
  CHECK(sizes(17, 8, {.rule = ChunkRule::ceil}) == Sizes{3, 3, 3, 3, 3, 2, 0, 0});
  CHECK(sizes(36, 7, {.rule = ChunkRule::ceil}) == Sizes{6, 6, 6, 6, 6, 6, 0});
}

TEST_CASE("scatter: weights give shares, zero gives nothing") {
  CHECK(sizes(10, 2, {.weights = {1, 4}}) == Sizes{2, 8});
  CHECK(sizes(9, 3, {.weights = {0, 1, 2}}) == Sizes{0, 3, 6});
  CHECK(sizes(7, 3, {.weights = {1, 1, 1}}) == Sizes{2, 3, 2});
  CHECK(throws<UsageError>([] { split_rows(4, 2, {.weights = {1}}); },
                           {"1 chunk weights", "2 devices"}));
  CHECK(throws<UsageError>([] { split_rows(4, 2, {.weights = {1, -1}}); }, {"weight is -1"}));
  CHECK(throws<UsageError>([] { split_rows(4, 2, {.weights = {0, 0}}); }, {"positive"}));
}

TEST_CASE("S1 scatter: rows 0-1 go to the first device, rows 2-3 to the second, bit for bit") {
  const Tensor x = values({4, 4}, 1, dev(7));
  const auto chunks = scatter(x, {dev(0), dev(1)});
  REQUIRE(chunks.size() == 2);
  CHECK(chunks[0].device() == dev(0));
  CHECK(chunks[1].device() == dev(1));
  CHECK(bits_equal(chunks[0], x.narrow(0, 0, 2).contiguous()));
  CHECK(bits_equal(chunks[1], x.narrow(0, 2, 2).contiguous()));
}

TEST_CASE("S2 scatter: the chunk on the source's device is a view, the other a copy") {
  const Tensor x = values({4, 4}, 1);
  const auto chunks = scatter(x, {dev(0), dev(1)});
  CHECK(chunks[0].array().data() == x.array().data());
  CHECK(chunks[0].array().storage() == x.array().storage());
  CHECK(chunks[1].array().storage() != x.array().storage());
  CHECK(bits_equal(chunks[1], x.narrow(0, 2, 2)));
}

TEST_CASE("S3 scatter: dimension 1 gives column halves") {
  for (Device home : {dev(7), dev(0)}) {
    const Tensor x = values({4, 4}, 2, home);
    const auto chunks = scatter(x, {dev(0), dev(1)}, {.dim = 1});
    CHECK(bits_equal(chunks[0], x.narrow(1, 0, 2)));
    CHECK(bits_equal(chunks[1], x.narrow(1, 2, 2)));
  }
}

TEST_CASE("S4 scatter: dimension -2 of a matrix is dimension 0") {
  const Tensor x = values({4, 4}, 3);
  const auto chunks = scatter(x, {dev(0), dev(1)}, {.dim = -2});
  CHECK(bits_equal(chunks[0], x.narrow(0, 0, 2)));
  CHECK(bits_equal(chunks[1], x.narrow(0, 2, 2)));
}

TEST_CASE("S5 scatter: chunk sizes 2 and 4 of six rows") {
  const Tensor x = values({6, 4}, 4);
  const auto chunks = scatter(x, {dev(0), dev(1)}, {.chunks = {.sizes = {2, 4}}});
  CHECK(bits_equal(chunks[0], x.narrow(0, 0, 2)));
  CHECK(bits_equal(chunks[1], x.narrow(0, 2, 4)));
  CHECK(throws<UsageError>(
      [&] {
        scatter(x, {dev(0), dev(1)}, {.chunks = {.sizes = {2, 3}}});
      },
      {"add up to 5", "6 rows"}));
}

TEST_CASE("S7 scatter: chunk sizes must be as many as devices") {
  CHECK(throws<UsageError>(
      [] {
        scatter(values({6, 4}, 1), devs(3), {.chunks = {.sizes = {2, 4}}});
      },
      {"2 chunk sizes", "3 devices"}));
}

TEST_CASE("S8 scatter: no devices is an error") {
  CHECK(throws<UsageError>([] { scatter(values({6, 4}, 1), {}); }, {"at least one device"}));
}

TEST_CASE("S11 scatter: backward through one chunk leaves zeros for the others") {
  for (Device home : {dev(7), dev(0)}) {
    Tensor x = values({4, 4}, 5, home);
    x.requires_grad_();
    const auto chunks = scatter(x, {dev(0), dev(1)});
    CHECK(chunks[0].device() == dev(0));
    CHECK(chunks[1].device() == dev(1));
    chunks[0].backward(full({2, 4}, 2.0));
    CHECK(x.grad().device() == home);
    CHECK(close(x.grad(), {2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0}));
  }
}

TEST_CASE("S12 scatter: the gradient equals finite differences" * doctest::skip(!has_float64())) {
  Tensor x = random_tensor({4, 4}, 6, float64);
  x.requires_grad_();
  const Tensor w = random_tensor({2, 4}, 7, float64, dev(1));
  const auto loss_of = [&](const Tensor& t) {
    const auto chunks = scatter(t, {dev(0), dev(1)});
    return sum(chunks[0] * chunks[0] * chunks[0]) + sum(chunks[1] * w).to(dev(0));
  };
  loss_of(x).backward();
  const std::vector<double> at = doubles(x), got = doubles(x.grad());
  for (std::size_t i = 0; i < at.size(); ++i) {
    auto moved = [&](double h) {
      std::vector<double> p = at;
      p[i] += h;
      return loss_of(tensor_of(p, {4, 4}, float64)).item<double>();
    };
    CHECK(close(got[i], (moved(1e-5) - moved(-1e-5)) / 2e-5, {1e-7, 1e-8}));
  }
}

TEST_CASE("S13 scatter: ten ones in two chunks; the sum of both has gradient one everywhere") {
  Tensor x = ones({10}, {.device = dev(7), .requires_grad = true});
  const auto chunks = scatter(x, {dev(0), dev(1)});
  CHECK(chunks[0].shape() == Shape{5});
  CHECK(chunks[1].shape() == Shape{5});
  const Tensor y = chunks[0].to(dev(1)) + chunks[1];
  y.backward(ones({5}, {.device = dev(1)}));
  REQUIRE(x.grad().defined());
  CHECK(x.grad().device() == dev(7));
  CHECK(sum(x.grad()).item<double>() == 10);
}

TEST_CASE("S14 scatter: channels-last chunks stay channels-last, and so does what is gathered") {
  const Tensor x = values({10, 32, 32, 3}, 8, dev(7)).permute({0, 3, 1, 2});  // N C H W
  const auto chunks = scatter(x, {dev(0), dev(1)});
  for (const Tensor& c : chunks) {
    CHECK(!c.is_contiguous());
    CHECK(c.permute({0, 2, 3, 1}).is_contiguous());
  }
  const Tensor back = parallel::gather(chunks, dev(0));
  CHECK(close(back, x.to(dev(0))));
}

namespace {
struct Pair {
  Tensor a, b;
  void visit(nn::Visitor& v) { v("a", a), v("b", b); }
};
struct KeepPair : nn::Module {
  Pair forward(const Pair& p) { return {p.a * 2, p.b * 3}; }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("S15 scatter: a struct's fields are each split, and come back under their names") {
  for (int k : {2, 3}) {
    KeepPair m;
    DataParallel net(m, on(k));
    const Pair in{values({2 * k}, 1), values({2 * k}, 2)};
    const Pair out = net(in);
    CHECK(close(out.a, in.a * 2));
    CHECK(close(out.b, in.b * 3));
    const auto each = net.scattered(in);
    REQUIRE(int(each.size()) == k);
    for (int i = 0; i < k; ++i) {
      CHECK(each[std::size_t(i)].a.device() == dev(i));
      CHECK(close(each[std::size_t(i)].b.to(dev(0)), (in.b * 3).narrow(0, 2 * i, 2)));
    }
  }
}

namespace {
struct Keywords {
  Tensor data;
  std::vector<Tensor> unused_list;
  std::map<std::string, Tensor> unused_map;
  std::tuple<> unused_tuple;
  void visit(nn::Visitor& v) {
    v("data", data), v("unused_list", unused_list), v("unused_map", unused_map);
  }
};
struct TakesKeywords : nn::Module {
  nn::Linear l{10, 5};
  Tensor forward(const Keywords& input) { return l(input.data); }
  void visit(nn::Visitor& v) override { v("l", l); }
};
}  // namespace

TEST_CASE("S17-19 scatter: an argument with empty containers gives the unwrapped module's output") {
  for (DType dtype : {float32, float64}) {
    if (dtype == float64 && !has_float64()) continue;
    TakesKeywords m;
    m.to(dtype);
    DataParallel net(m, on(2));
    const Keywords input{random_tensor({20, 10}, 1, dtype), {}, {}, {}};
    const Tensor y = net(input);
    CHECK(y.device() == dev(0));
    CHECK(close(y, m.forward(input)));
  }
}

TEST_CASE("scatter: a 0-dim tensor alone cannot be split") {
  CHECK(throws<UsageError>([] { scatter(tensor(1.0), devs(2)); }, {"0-dim"}));
}

TEST_CASE("scatter: fewer rows than devices use fewer devices") {
  const auto chunks = scatter(values({2, 3}, 1), devs(4));
  CHECK(chunks.size() == 2);
}

}  // namespace tandem::test
