// Optimizer steps and dropout. Compiled without contraction the steps equal the host's float bits.
#include "kernels/test_support.h"

using namespace cudasim::ptx;

namespace {

constexpr std::size_t kN = 3000;

// Philox 4x32-10 with 64-bit products, written from the paper; see random123's known answers below.
struct Philox {
  std::uint32_t word[4];
  Philox(std::uint64_t counter, std::uint64_t high, std::uint64_t key) {
    std::uint32_t c[4] = {std::uint32_t(counter), std::uint32_t(counter >> 32), std::uint32_t(high),
                          std::uint32_t(high >> 32)};
    std::uint32_t k0 = std::uint32_t(key), k1 = std::uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0],
                          p1 = std::uint64_t{0xCD9E8D57u} * c[2];
      const std::uint32_t next[4] = {std::uint32_t(p1 >> 32) ^ c[1] ^ k0, std::uint32_t(p1),
                                     std::uint32_t(p0 >> 32) ^ c[3] ^ k1, std::uint32_t(p0)};
      std::copy(next, next + 4, c);
    }
    std::copy(c, c + 4, word);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("adam equals the same step on the host, bit for bit", Arch, Sm75, Sm80, Sm90) {
  struct Options {
    float lr, beta1, beta2, epsilon, correction1, correction2;
  };
  const Options o = {1e-3f, 0.9f, 0.999f, 1e-8f, 1 - 0.9f * 0.9f, 1 - 0.999f * 0.999f};
  PtxDevice device("optimizer", Arch::name);
  auto p = random_floats(kN, 1), g = random_floats(kN, 2), m = random_floats(kN, 3, -0.1f, 0.1f),
       v = random_floats(kN, 4, 0, 0.1f);
  float *dp = device.upload(p), *dm = device.upload(m), *dv = device.upload(v);
  RUNS_CLEANLY(
      device.launch("adam_kernel", kGrid, kThreads, 0, dp, device.upload(g), dm, dv, kN, o));
  for (std::size_t i = 0; i < kN; ++i) {
    m[i] = o.beta1 * m[i] + (1.f - o.beta1) * g[i];
    v[i] = o.beta2 * v[i] + (1.f - o.beta2) * g[i] * g[i];
    p[i] -= o.lr * (m[i] / o.correction1) / (std::sqrt(v[i] / o.correction2) + o.epsilon);
  }
  SAME(device.download(dp, kN), p);
  SAME(device.download(dm, kN), m);
  SAME(device.download(dv, kN), v);
}

TEST_CASE_TEMPLATE("adam with contraction and fast math stays within a few roundings", Arch,
                   FastMath) {
  struct Options {
    float lr, beta1, beta2, epsilon, correction1, correction2;
  };
  const Options o = {1e-3f, 0.9f, 0.999f, 1e-8f, 0.19f, 0.001999f};
  PtxDevice device("optimizer", Arch::name);
  const auto p = random_floats(kN, 1), g = random_floats(kN, 2);
  const std::vector<float> zero(kN);
  float* dp = device.upload(p);
  RUNS_CLEANLY(device.launch("adam_kernel", kGrid, kThreads, 0, dp, device.upload(g),
                             device.upload(zero), device.upload(zero), kN, o));
  std::vector<double> expected;
  for (std::size_t i = 0; i < kN; ++i) {
    const double m = (1.0 - o.beta1) * g[i], v = (1.0 - o.beta2) * g[i] * g[i];
    expected.push_back(p[i] -
                       o.lr * (m / o.correction1) / (std::sqrt(v / o.correction2) + o.epsilon));
  }
  // 1 - beta2 loses ten bits in float: 1e-5 relative of a step of 1e-3
  SAME(device.download(dp, kN), expected, 2e-7, 1e-7);
}

TEST_CASE_TEMPLATE("sgd_momentum equals the same step on the host, bit for bit", Arch, Sm75, Sm80,
                   Sm90) {
  PtxDevice device("optimizer", Arch::name);
  auto p = random_floats(kN, 5), g = random_floats(kN, 6), m = random_floats(kN, 7);
  float *dp = device.upload(p), *dm = device.upload(m);
  RUNS_CLEANLY(device.launch("sgd_momentum_kernel", kGrid, kThreads, 0, dp, device.upload(g), dm,
                             kN, 0.1f, 0.9f));
  for (std::size_t i = 0; i < kN; ++i) {
    m[i] = 0.9f * m[i] + g[i];
    p[i] -= 0.1f * m[i];
  }
  SAME(device.download(dp, kN), p);
  SAME(device.download(dm, kN), m);
}

TEST_CASE_TEMPLATE("sgd_many follows pointers inside of a structure", Arch, Sm75, Sm80, Sm90) {
  struct TensorList {
    float* p[16];
    const float* g[16];
    std::size_t n[16];
    int count;
  } list = {};
  PtxDevice device("optimizer", Arch::name);
  std::vector<std::vector<float>> expected;
  list.count = 5;
  for (int k = 0; k < list.count; ++k) {
    list.n[k] = 100 + 77 * k;
    auto p = random_floats(list.n[k], 10 + k);
    const auto g = random_floats(list.n[k], 20 + k);
    list.p[k] = device.upload(p);
    list.g[k] = device.upload(g);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= 0.5f * g[i];
    expected.push_back(p);
  }
  RUNS_CLEANLY(device.launch("sgd_many_kernel", {2, 5}, {128}, 0, list, 0.5f));
  for (int k = 0; k < list.count; ++k) SAME(device.download(list.p[k], list.n[k]), expected[k]);
}

TEST_CASE_TEMPLATE("dropout draws from Philox and keeps a byte per element", Arch, Sm75, Sm80,
                   Sm90) {
  // The Random123 distribution's known answer for a counter and a key of all ones.
  const Philox ones(~0ull, ~0ull, ~0ull);
  CHECK_EQ(ones.word[0], 0x408f276du);
  CHECK_EQ(ones.word[1], 0x41c83b0eu);
  CHECK_EQ(ones.word[2], 0xa20bc7c6u);
  CHECK_EQ(ones.word[3], 0x6d5451fdu);
  PtxDevice device("optimizer", Arch::name);
  const std::size_t n = 1001;
  const std::uint64_t seed = 0x123456789abcdefull;
  const auto x = random_floats(n, 8);
  float* y = device.empty<float>(n);
  auto* keep = device.empty<std::uint8_t>(n);
  RUNS_CLEANLY(
      device.launch("dropout_kernel", {1}, {256}, 0, device.upload(x), y, keep, n, 0.3f, seed));
  std::vector<float> expected;
  std::vector<std::uint8_t> kept;
  for (std::size_t i = 0; i < n; ++i) {
    const float uniform = static_cast<float>(Philox(i / 4, 0, seed).word[i % 4] >> 8) * 0x1p-24f;
    kept.push_back(uniform >= 0.3f);
    expected.push_back(kept[i] ? x[i] / (1.f - 0.3f) : 0.f);
  }
  SAME(device.download(y, n), expected);
  SAME(device.download(keep, n), kept);
}
