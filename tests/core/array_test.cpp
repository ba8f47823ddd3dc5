// Arrays: views, layout, slots and versions, copies between devices (core/array.h), and what the
// functions on arrays refuse (core/array_ops.h).
#include <doctest/doctest.h>

#include <limits>
#include <numeric>

#include "tests/support/check.h"

#include <tandem/core/array_ops.h>
#include <tandem/core/trace.h>

using namespace tandem;
using namespace tandem::test;

namespace {

using Values = std::vector<double>;

// 0, 1, 2, ... of `shape`
Array counting(const Shape& shape, DType dtype = float32, Device device = dev(0)) {
  Values values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0);
  return array_of(values, shape, dtype, device);
}

}  // namespace

// ---- what an array is

TEST_CASE("array: an undefined array says so and nothing else") {
  const Array a;
  CHECK(!a.defined());
  CHECK(a.numel() == 1);  // of the empty shape
}

TEST_CASE("array: empty is row-major with the shape, dtype and device asked for") {
  const Array a = Array::empty({2, 3, 4}, float64, dev(2));
  CHECK(a.shape() == Shape{2, 3, 4});
  CHECK(a.strides() == Shape{12, 4, 1});
  CHECK(a.dtype() == float64);
  CHECK(a.device() == dev(2));
  CHECK(a.nbytes() == 192);
  CHECK(a.offset() == 0);
  CHECK(a.is_contiguous());
  CHECK(a.is_dense());
}

TEST_CASE("array: full and zeros fill every element of every dtype") {
  for (DType t : {float32, float64, float16, bfloat16, int64, int32, uint8, boolean}) {
    INFO(std::string(name(t)));
    litter_pool(dev(0));
    CHECK(doubles(Array::full({3, 5}, 1, t, dev(0))) == Values(15, 1.0));
    CHECK(doubles(Array::zeros({3, 5}, t, dev(0))) == Values(15, 0.0));
    CHECK(doubles(Array::full({}, 1, t, dev(0))) == Values{1});
  }
}

TEST_CASE("array: empty_like keeps the strides of a dense array in any order") {
  const Array t = counting({2, 3, 4}).permute({2, 0, 1});
  CHECK(Array::empty_like(t).strides() == t.strides());
  const Array gaps = counting({4, 6}).slice(1, 0, 6, 2);
  CHECK(Array::empty_like(gaps).is_contiguous());
  const Array expanded = counting({1, 3}).expand({2, 3});
  CHECK(Array::empty_like(expanded).is_contiguous());
}

TEST_CASE("array: eight dimensions of one element are one element") {
  const Array a = counting({1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(doubles(a.permute({7, 6, 5, 4, 3, 2, 1, 0})) == Values{0});
  CHECK(throws<UsageError>([&] { a.unsqueeze(0); }, {"8"}));
}

// ---- layout

TEST_CASE("layout: dense means no gaps and no overlaps in some order") {
  const Array a = counting({2, 3, 4});
  CHECK(a.is_dense());
  CHECK(a.permute({2, 0, 1}).is_dense());
  CHECK(!a.permute({2, 0, 1}).is_contiguous());
  CHECK(!a.slice(2, 0, 4, 2).is_dense());
  CHECK(!a.narrow(1, 0, 2).is_dense());
  CHECK(a.narrow(0, 1, 1).is_dense());
  CHECK(!counting({1, 3}).expand({2, 3}).is_dense());
  CHECK(!counting({4}).as_strided({2, 2}, {1, 1}, 0).is_dense());
}

TEST_CASE("layout: strides of size-1 dimensions do not matter") {
  const Array a = counting({6}).as_strided({1, 6, 1}, {77, 1, 99}, 0);
  CHECK(a.is_contiguous());
  CHECK(a.is_dense());
  CHECK(doubles(a) == Values{0, 1, 2, 3, 4, 5});
}

TEST_CASE("layout: an array without elements is contiguous") {
  CHECK(Array::empty({0}, float32, dev(0)).is_contiguous());
  CHECK(Array::empty({3, 0, 2}, float32, dev(0)).is_contiguous());
  CHECK(doubles(counting({3, 4}).narrow(0, 1, 0).permute({1, 0})).empty());
}

// ---- views

TEST_CASE("views: each picks the elements that index arithmetic picks") {
  const Array a = counting({3, 4});
  CHECK(doubles(a.narrow(0, 1, 2)) == Values{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(doubles(a.slice(1, 1, 4, 2)) == Values{1, 3, 5, 7, 9, 11});
  CHECK(doubles(a.slice(1, 3, 1, 1)).empty());
  CHECK(doubles(a.select(0, 2)) == Values{8, 9, 10, 11});
  CHECK(doubles(a.select(1, 0)) == Values{0, 4, 8});
  CHECK(doubles(a.transpose(0, 1)) == Values{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(doubles(a.unsqueeze(1).squeeze(1)) == doubles(a));
  CHECK(doubles(a.select(0, 1).expand({2, 4})) == Values{4, 5, 6, 7, 4, 5, 6, 7});
}

TEST_CASE("views: views of views keep count of offset and strides") {
  const Array a = counting({4, 5, 6});
  const Array v = a.narrow(0, 1, 3).slice(2, 1, 6, 2).select(1, 3).transpose(0, 1).narrow(0, 1, 2);
  // elements (i, 3, 1 + 2 j), i = 1..3, j = 1..2, transposed
  CHECK(doubles(v) == Values{51, 81, 111, 53, 83, 113});
  CHECK(v.storage() == a.storage());
}

TEST_CASE("view_or_undefined: joins and splits where strides allow it, else is undefined") {
  const Array a = counting({2, 3, 4});
  CHECK(doubles(a.view_or_undefined({6, 4})) == doubles(a));
  CHECK(a.transpose(0, 1).view_or_undefined({24}).defined() == false);
  const Array inner = a.narrow(2, 0, 2);  // (2, 3, 2) with gaps: the first two still join
  CHECK(doubles(inner.view_or_undefined({6, 2})) == doubles(inner));
  CHECK(!inner.view_or_undefined({2, 6}).defined());
  CHECK(doubles(inner.view_or_undefined({3, 2, 1, 2})) == doubles(inner));
  const Array stretched = counting({1}).expand({6});
  CHECK(doubles(stretched.view_or_undefined({2, 3})) == Values(6, 0.0));
  CHECK(a.narrow(1, 0, 0).view_or_undefined({5, 0}).shape() == Shape{5, 0});
}

TEST_CASE("view_or_undefined: is never wrong for any strides and any factorisation") {
  const Array a = counting({4, 6, 4});
  const std::vector<Array> sources{a,
                                   a.permute({2, 0, 1}),
                                   a.permute({1, 2, 0}),
                                   a.slice(1, 0, 6, 2),
                                   a.narrow(0, 1, 2),
                                   a.narrow(2, 1, 2),
                                   a.select(1, 0).unsqueeze(1),
                                   a.select(1, 0).unsqueeze(1).expand({4, 3, 4})};
  for (const Array& s : sources) {
    const std::int64_t n = s.numel();
    for (std::int64_t i = 1; i <= n; ++i) {
      if (n % i != 0) continue;
      for (std::int64_t j = 1; j <= n / i; ++j) {
        if (n / i % j != 0) continue;
        const Array v = s.view_or_undefined({i, j, n / i / j});
        if (v.defined()) CHECK(doubles(v) == doubles(s));
        CHECK(doubles(s.reshape({i, 1, j, n / i / j})) == doubles(s));
      }
    }
  }
}

TEST_CASE("as_strided: outside of the slot is refused") {
  const Array a = counting({6});
  CHECK(doubles(a.as_strided({2, 2}, {3, 1}, 1)) == Values{1, 2, 4, 5});
  CHECK(throws<UsageError>([&] { a.as_strided({2, 2}, {3, 1}, 2).defined(); }));
  CHECK(throws<UsageError>([&] { a.as_strided({7}, {1}, 0).defined(); }, {"(7,)"}));
  CHECK(throws<UsageError>([&] { a.as_strided({1}, {1}, -1).defined(); }));
  CHECK(throws<UsageError>([&] { a.as_strided({2}, {1, 1}, 0).defined(); }));
  CHECK(throws<UsageError>([&] { a.as_strided({2}, {-1}, 0).defined(); }));
  CHECK(a.as_strided({0}, {1}, 0).numel() == 0);
}

TEST_CASE("expand: a shape that does not fit is refused") {
  const Array a = counting({2, 1});
  CHECK(throws<UsageError>([&] { a.expand({3, 4}).defined(); }, {"(2, 1)", "(3, 4)"}));
  CHECK(throws<UsageError>([&] { a.expand({2}).defined(); }));
  CHECK(a.expand({2, 0}).numel() == 0);
}

// ---- slots and versions

TEST_CASE("versions: a view shares the version of what it views, whoever writes") {
  Array a = counting({2, 3});
  Array v = a.select(0, 1);
  const std::uint64_t before = a.version();
  fill(v, 7);
  CHECK(a.version() == before + 1);
  CHECK(v.version() == before + 1);
  a.mutable_data();
  CHECK(v.version() == before + 2);
  a.fresh_data();
  CHECK(v.version() == before + 2);
  CHECK(doubles(a) == Values{0, 1, 2, 7, 7, 7});
}

TEST_CASE("versions: each kind of in-place write is counted once") {
  Array a = counting({2, 2}), b = counting({2, 2}), far = counting({2, 2}, float32, dev(1));
  std::uint64_t version = a.version();
  const auto counted = [&] { return a.version() == ++version; };
  copy(a, b);
  CHECK(counted());
  copy(a, far);
  CHECK(counted());
  zip_<Add>(a, b);
  CHECK(counted());
  fill(a, 1);
  CHECK(counted());
  gemm_accumulate(b, b, a);
  CHECK(counted());
  CHECK(b.version() == 0);
}

TEST_CASE("versions: slots carved out of one block have versions of their own") {
  Array block = Array::zeros({8}, float32, dev(0));
  Array first = block.carve(0, {2, 2}, float32), second = block.carve(16, {4}, float32);
  fill(first, 1);
  CHECK(first.version() == 1);
  CHECK(second.version() == 0);
  CHECK(block.version() == 0);
  fill(second.narrow(0, 2, 2).mutable_data() ? second : second, 2);
  CHECK(first.version() == 1);
  CHECK(doubles(block) == Values{1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(throws<UsageError>([&] { block.carve(20, {4}, float32).defined(); }));
  CHECK(throws<UsageError>([&] { block.carve(-4, {1}, float32).defined(); }));
}

TEST_CASE("slots: a carved array keeps its block alive, and only itself counts for is_unique") {
  const std::int64_t before = bytes_in_use(dev(40));
  Array part;
  {
    const Array block = Array::full({1000}, 3, float32, dev(40));
    part = block.carve(400, {5}, float32);
    CHECK(!block.is_unique());
    CHECK(part.is_unique());
  }
  CHECK(doubles(part) == Values(5, 3.0));
  CHECK(bytes_in_use(dev(40)) >= before + 4000);
  part = {};
  CHECK(bytes_in_use(dev(40)) == before);
}

TEST_CASE("slots: a carved array has another dtype if asked for") {
  const Array block = Array::zeros({4}, float64, dev(0));
  Array part = block.carve(8, {2, 2}, float32);
  fill(part, 1);
  CHECK(doubles(part) == Values(4, 1.0));
  CHECK(doubles(block)[0] == 0);
  CHECK(doubles(block)[3] == 0);
}

TEST_CASE("slots: same_as means the same elements of the same slot") {
  const Array a = counting({2, 3});
  CHECK(a.same_as(a.transpose(0, 1).transpose(0, 1)));
  CHECK(!a.same_as(a.transpose(0, 1)));
  CHECK(!a.same_as(a.clone()));
  CHECK(!a.same_as(a.narrow(0, 0, 1)));
}

// ---- copies

TEST_CASE("copies: contiguous and to() give the array itself where nothing is to do, clone never") {
  const Array a = counting({2, 3});
  CHECK(a.contiguous().same_as(a));
  CHECK(a.to(dev(0)).same_as(a));
  CHECK(a.to(float32).same_as(a));
  CHECK(!a.clone().same_as(a));
  const Array t = a.transpose(0, 1);
  CHECK(t.contiguous().strides() == Shape{2, 1});
  CHECK(t.clone().strides() == t.strides());
  CHECK(doubles(t.clone()) == doubles(t));
}

TEST_CASE("copies: between devices each is counted once, with its bytes, on both sides") {
  const Array a = counting({100}, float32, dev(41));
  const trace::Copies from = trace::copies(dev(41)), to = trace::copies(dev(42));
  const Array b = a.to(dev(42));
  const trace::Copies out = trace::copies(dev(41)) - from, in = trace::copies(dev(42)) - to;
  CHECK(out.out_count == 1);
  CHECK(out.out_bytes == 400);
  CHECK(out.in_count == 0);
  CHECK(in.in_count == 1);
  CHECK(in.in_bytes == 400);
  CHECK(in.out_count == 0);
  CHECK(bits_equal(a, b));
}

TEST_CASE("copies: within a device, and none at all, are not counted") {
  const trace::Copies before = trace::all_copies();
  Array a = counting({4, 4}, float32, dev(41));
  a.clone();
  a.transpose(0, 1).contiguous();
  a.to(dev(41));
  a.to(bfloat16);
  if (has_float64()) a.to(float64);  // a GPU's host does it
  copy(a, a.transpose(0, 1).clone());
  CHECK((trace::all_copies() - before).in_count == 0);
}

TEST_CASE("copies: every layout on either side arrives as it was, in one counted copy") {
  const auto layouts = [](Device d) {
    const Array base = Array::full({8, 10, 6}, -1, float32, d);
    return std::vector<Array>{Array::full({3, 4, 2}, -1, float32, d),
                              base.narrow(0, 2, 3).narrow(1, 1, 4).narrow(2, 2, 2),
                              Array::full({2, 4, 3}, -1, float32, d).transpose(0, 2),
                              base.slice(0, 1, 6, 2).slice(1, 2, 10, 2).slice(2, 0, 3, 2),
                              Array::full({4, 3, 2}, -1, float32, d).permute({1, 0, 2})};
  };
  const Array truth = counting({3, 4, 2});
  for (Array& from : layouts(dev(0))) {
    copy(from, truth);
    REQUIRE(doubles(from) == doubles(truth));
    CHECK(doubles(from.to(dev(1))) == doubles(truth));
    for (Array& to : layouts(dev(1))) {
      const trace::Copies before = trace::all_copies();
      copy(to, from);
      CHECK(doubles(to) == doubles(truth));
      CHECK((trace::all_copies() - before).in_count == 1);
      CHECK((trace::all_copies() - before).in_bytes == truth.nbytes());
    }
  }
}

TEST_CASE("copies: writing into a view leaves its neighbours alone") {
  Array a = Array::zeros({4, 4}, float32, dev(0));
  Array view = a.slice(0, 1, 4, 2).slice(1, 0, 4, 3);
  copy(view, array_of({1, 2, 3, 4}, {2, 2}));
  CHECK(doubles(a) == Values{0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 4});
  fill(view, 9);
  CHECK(doubles(a) == Values{0, 0, 0, 0, 9, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0, 9});
}

TEST_CASE("copies: an empty array can be copied, moved, cast and filled") {
  Array a = Array::empty({0, 3}, float32, dev(0));
  CHECK(a.to(dev(1)).shape() == Shape{0, 3});
  CHECK(a.to(int64).dtype() == int64);
  CHECK(a.clone().shape() == Shape{0, 3});
  fill(a, 1);
  copy(a, Array::empty({0, 3}, float32, dev(2)));
  CHECK(a.to_vector<float>().empty());
  CHECK(Array::from_host(nullptr, {0}, float32, dev(0)).numel() == 0);
}

TEST_CASE("cast: all pairs of dtypes convert as stated, from any strides") {
  const Values values{0, 1, 2, 3, 100, 0.5};
  const DType all[] = {float32, float64, float16, bfloat16, int64, int32, uint8, boolean};
  for (DType from : all) {
    for (DType to : all) {
      INFO(std::string(name(from)), " to ", std::string(name(to)));
      const Array a = array_of(values, {2, 3}, from).transpose(0, 1);
      Values expected;
      for (double v : doubles(a)) expected.push_back(stored_as(to, v));
      CHECK(doubles(a.to(to)) == expected);
    }
  }
}

TEST_CASE("cast: negative numbers truncate towards zero, and int64 keeps its extremes") {
  CHECK(doubles(array_of({-1.75, 1.75}, {2}).to(int64)) == Values{-1, 1});
  CHECK(doubles(array_of({-1.75, 0, 0.25}, {3}).to(boolean)) == Values{1, 0, 1});
  const std::int64_t extremes[] = {std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max(), -1};
  const Array a = Array::from_host(extremes, {3}, int64, dev(0));
  CHECK(a.to(dev(1)).to(dev(0)).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>(extremes, extremes + 3));
  CHECK(a.clone().to_vector<std::int64_t>()[0] == extremes[0]);
}

TEST_CASE("item: exactly one element, of any dtype and shape") {
  for (DType t : {float32, float64, float16, bfloat16, int64, int32, uint8, boolean}) {
    CHECK(array_of({1}, {1, 1}, t).item() == 1);
  }
  CHECK(counting({3}).narrow(0, 2, 1).item() == 2);
  CHECK(throws<UsageError>([] { counting({2}).item(); }, {"(2,)"}));
  CHECK(throws<UsageError>([] { counting({0}).item(); }));
}

TEST_CASE("to_vector: the type must be the dtype") {
  CHECK(throws<UsageError>([] { counting({2}).to_vector<double>(); }, {"float64", "float32"}));
  CHECK(array_of({1, 0}, {2}, boolean).to_vector<bool>() == std::vector<bool>{true, false});
}

// ---- what functions on arrays refuse

TEST_CASE("array ops: two devices are an error that names the op and both") {
  const Array a = counting({2, 2}), b = counting({2, 2}, float32, dev(1));
  Array c = counting({2, 2});
  const auto refused = [](auto&& f, const char* op) {
    return throws<UsageError>(f, {op, dev_name(0), dev_name(1)});
  };
  CHECK(refused([&] { zip<Add>(a, b); }, "zip"));
  CHECK(refused([&] { zip_<Add>(c, b); }, "zip_"));
  CHECK(refused([&] { gemm(a, b); }, "matmul"));
  CHECK(refused([&] { where(array_of({1}, {1}, boolean), a, b); }, "where"));
  const std::vector<Array> both{a, b};
  CHECK(refused([&] { concat(both, 0); }, "cat"));
}

TEST_CASE("array ops: two dtypes, storage types and shapes that do not fit are refused") {
  const Array a = counting({2, 3}), ints = counting({2, 3}, int32),
              doubles64 = counting({2, 3}, float64);
  CHECK(throws<UsageError>([&] { zip<Add>(a, doubles64); }, {"float32", "float64"}));
  CHECK(throws<UsageError>([&] { zip<Add>(ints, ints); }, {"int32", "storage"}));
  CHECK(throws<UsageError>([&] { map<Exp>(ints); }, {"int32"}));
  CHECK(throws<UsageError>([&] { zip<Add>(a, counting({2})); }, {"(2, 3)", "(2,)"}));
  CHECK(throws<UsageError>([&] { gemm(a, a); }, {"(2, 3)"}));
  Array small = counting({3});
  CHECK(throws<UsageError>([&] { zip_<Add>(small, a); }, {"in place"}));
  CHECK(throws<UsageError>([&] { copy(small, a); }, {"(2, 3)", "(3,)"}));
  CHECK(throws<UsageError>([&] { copy(small, counting({3}, int64)); }, {"int64", "float32"}));
  CHECK(small.version() == 0);  // refused before anything is changed
  CHECK(throws<UsageError>([&] { reduce<SumRule>(a, {0, -2}); }, {"twice"}));
}

TEST_CASE("array ops: writing where elements share memory is refused") {
  Array stretched = counting({3, 1}).expand({3, 4});
  CHECK(throws<UsageError>([&] { zip_<Add>(stretched, counting({3, 4})); }, {"share"}));
  CHECK(throws<UsageError>([&] { copy(stretched, counting({3, 4})); }, {"share"}));
  CHECK(stretched.version() == 0);
}

TEST_CASE("array ops: an operand that overlaps the target is read before it is written") {
  Array a = counting({5});
  Array target = a.narrow(0, 1, 4);
  zip_<Add>(target, a.narrow(0, 0, 4));
  CHECK(doubles(a) == Values{0, 1, 3, 5, 7});
  Array m = counting({3, 3});
  copy(m, m.transpose(0, 1));
  CHECK(doubles(m) == Values{0, 3, 6, 1, 4, 7, 2, 5, 8});
  Array self = counting({3});
  zip_<Add>(self, self);
  CHECK(doubles(self) == Values{0, 2, 4});
  Array large = counting({5000});  // many kernel blocks
  Array rest = large.narrow(0, 1, 4999);
  zip_<Add>(rest, large.narrow(0, 0, 4999));
  const Values after = doubles(large);
  for (std::size_t i = 1; i < 5000; ++i) REQUIRE(after[i] == double(2 * i - 1));
  Array first = counting({3});
  zip_<Add>(first, first.narrow(0, 1, 1));
  CHECK(doubles(first) == Values{1, 2, 3});
}
