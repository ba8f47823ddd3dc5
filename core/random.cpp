#include <tandem/core/random.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <tandem/core/error.h>
#include <tandem/core/thread_state.h>

namespace tandem {
namespace {

constexpr std::size_t kWords = 624, kShift = 397;  // MT19937
constexpr std::size_t kBlock = 16;                 // of PyTorch's vectorised normal

constexpr std::uint64_t low_bits(int n) {
  return (std::uint64_t(1) << n) - 1;
}

// One block of normals from uniforms, in place: pairs (j, j + 8) by Box-Muller.
template <class T>
void box_muller(T* d, T mean, T std) {
  for (std::size_t j = 0; j < kBlock / 2; ++j) {
    const T u1 = T(1) - d[j], u2 = d[j + kBlock / 2];  // u1 in (0, 1]: its logarithm is finite
    const T radius = std::sqrt(T(-2) * std::log(u1));
    const T theta = T(2) * std::numbers::pi_v<T> * u2;
    d[j] = radius * std::cos(theta) * std + mean;
    d[j + kBlock / 2] = radius * std::sin(theta) * std + mean;
  }
}

// A last block that is not full is drawn again, all 16 of it.
template <class T, class Uniform>
void normal_blocks(std::span<T> out, T mean, T std, Uniform uniform) {
  for (T& x : out) x = uniform();
  const std::size_t full = out.size() / kBlock * kBlock;
  for (std::size_t i = 0; i < full; i += kBlock) box_muller(&out[i], mean, std);
  if (full == out.size()) return;
  T* last = &out[out.size() - kBlock];
  for (std::size_t j = 0; j < kBlock; ++j) last[j] = uniform();
  box_muller(last, mean, std);
}

// A well mixed 64-bit number from two (the finaliser of splitmix64).
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a + 0x9E3779B97F4A7C15u * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

// ---- the engine

void Generator::manual_seed(std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  state_ = {};
  state_.seed = seed;
  state_.words[0] = std::uint32_t(seed);
  for (std::uint32_t i = 1; i < kWords; ++i) {
    const std::uint32_t before = state_.words[i - 1];
    state_.words[i] = 1812433253u * (before ^ (before >> 30)) + i;
  }
}

Generator Generator::counter_based(std::uint64_t seed, std::uint32_t rank, std::uint32_t call) {
  return Generator(Counters{seed, rank, call, 0});
}

std::uint64_t Generator::initial_seed() const {
  const std::lock_guard lock(mutex_);
  return state_.seed;
}

Generator::State Generator::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(const State& state) {
  check(state.next >= 0 && state.next <= int(kWords), "[set_state] position ", state.next,
        " is not within the ", kWords, " words of the state");
  const std::lock_guard lock(mutex_);
  state_ = state;
}

void Generator::refill() {
  auto& w = state_.words;
  if (counters_) {  // four words at a time, at the end of the block
    const Counters& c = *counters_;
    const Philox4 bits =
        philox(c.block, c.rank, c.call, 0, std::uint32_t(c.seed), std::uint32_t(c.seed >> 32));
    std::copy_n(bits.v, 4, w.end() - 4);
    ++counters_->block;
    state_.next = int(kWords) - 4;
    return;
  }
  auto twist = [](std::uint32_t upper, std::uint32_t lower) {
    const std::uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return (y >> 1) ^ ((lower & 1u) != 0 ? 0x9908b0dfu : 0u);
  };
  for (std::size_t i = 0; i < kWords; ++i) {
    w[i] = w[(i + kShift) % kWords] ^ twist(w[i], w[(i + 1) % kWords]);
  }
  state_.next = 0;
}

std::uint32_t Generator::draw32() {
  if (state_.next == int(kWords)) refill();
  std::uint32_t y = state_.words[std::size_t(state_.next++)];
  if (counters_) return y;
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

std::uint64_t Generator::draw64() {
  const std::uint64_t upper = draw32();
  return upper << 32 | draw32();
}

double Generator::draw_uniform53() {
  return double(draw64() & low_bits(53)) * 0x1p-53;
}

// Box-Muller in double; the sine is kept for the next call.
double Generator::draw_normal() {
  if (state_.has_normal) {
    state_.has_normal = false;
    return state_.normal;
  }
  const double u1 = draw_uniform53(), u2 = draw_uniform53();
  const double radius = std::sqrt(-2.0 * std::log(1.0 - u2));
  const double theta = 2.0 * std::numbers::pi * u1;
  state_.normal = radius * std::sin(theta);
  state_.has_normal = true;
  return radius * std::cos(theta);
}

// ---- distributions

std::uint32_t Generator::random32() {
  const std::lock_guard lock(mutex_);
  return draw32();
}

std::uint64_t Generator::random64() {
  const std::lock_guard lock(mutex_);
  return draw64();
}

std::int64_t Generator::random_int64() {
  return std::int64_t(random64() & low_bits(63));
}

void Generator::uniform(std::span<float> out, double low, double high) {
  const std::lock_guard lock(mutex_);
  const float from = float(low), range = float(high) - from;
  for (float& x : out) x = std::fma(float(draw32() & low_bits(24)) * 0x1p-24f, range, from);
}

void Generator::uniform(std::span<double> out, double low, double high) {
  const std::lock_guard lock(mutex_);
  for (double& x : out) x = std::fma(draw_uniform53(), high - low, low);
}

void Generator::normal(std::span<float> out, double mean, double std) {
  const std::lock_guard lock(mutex_);
  if (out.size() < kBlock) {
    for (float& x : out) x = float(draw_normal() * std + mean);
  } else {
    normal_blocks(out, float(mean), float(std),
                  [this] { return float(draw32() & low_bits(24)) * 0x1p-24f; });
  }
}

void Generator::normal(std::span<double> out, double mean, double std) {
  const std::lock_guard lock(mutex_);
  if (out.size() < kBlock) {
    for (double& x : out) x = draw_normal() * std + mean;
  } else {
    normal_blocks(out, mean, std, [this] { return draw_uniform53(); });
  }
}

void Generator::integers(std::span<std::int64_t> out, std::int64_t low, std::int64_t high) {
  check(low < high, "[randint] no integer is in [", low, ", ", high, ")");
  const std::lock_guard lock(mutex_);
  const std::uint64_t range = std::uint64_t(high) - std::uint64_t(low);
  const bool wide = range >> 32 != 0;
  for (std::int64_t& x : out) {
    const std::uint64_t bits = wide ? draw64() : draw32();
    x = std::int64_t(std::uint64_t(low) + bits % range);
  }
}

std::vector<std::int64_t> Generator::permutation(std::int64_t n) {
  check(n >= 0, "[randperm] n is negative: ", n);
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t(0));
  for (std::uint64_t i = 0; i + 1 < order.size(); ++i) {
    std::swap(order[i], order[i + draw32() % (order.size() - i)]);
  }
  return order;
}

// ---- who draws where

Generator& default_generator() {
  static auto* generator = new Generator;  // never destroyed: late static tensors may draw
  return *generator;
}

void manual_seed(std::uint64_t seed) {
  default_generator().manual_seed(seed);
  thread_state().random_calls = 0;
}

Generator replica_generator() {
  ThreadState& state = thread_state();
  const std::uint64_t seed = mix(default_generator().initial_seed(), 0);  // not dropout's numbers
  return Generator::counter_based(seed, std::uint32_t(state.replica.rank), state.random_calls++);
}

DropoutKey next_dropout_key(std::int64_t rows, double p) {
  ThreadState& state = thread_state();
  DropoutKey key{default_generator().initial_seed(), state.random_calls++, 0, float(p)};
  const ReplicaContext& replica = state.replica;
  if (!replica.active()) return key;
  if (replica.rows > 0 && rows % replica.rows == 0) {
    key.first_row = replica.first_row * (rows / replica.rows);
  } else {  // rows of this tensor are not rows of the batch: the mask depends on the ranks
    key.seed = mix(key.seed, std::uint64_t(replica.rank) + 1);
  }
  return key;
}

}  // namespace tandem
