// Random numbers: PyTorch's, draw for draw.
//
// One host generator (MT19937 behind a mutex) follows PyTorch's CPU generator: the same seed gives
// the same weights, data and shuffles, on every device, since values are drawn on the host and then
// copied. Inside a replica's forward the factories use a Philox stream keyed by (seed, rank, call)
// instead, so that threads never race for draws. Dropout is Philox keyed by sample row: philox.h.
// Never std::uniform_*_distribution or std::shuffle: they differ between standard libraries.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <tandem/core/philox.h>

namespace tandem {

/// A source of random numbers with PyTorch's rules (CPU generator, version 1.13). Thread safe: each
/// call draws as one.
class Generator {
 public:
  static constexpr std::uint64_t kDefaultSeed = 67280421310721ull;

  explicit Generator(std::uint64_t seed = kDefaultSeed) { manual_seed(seed); }
  /// Another source of bits under the same rules: Philox keyed by (seed, rank, call). It starts
  /// without preparation. Its state() is not complete.
  static Generator counter_based(std::uint64_t seed, std::uint32_t rank, std::uint32_t call);

  /// Starts again; only the low 32 bits reach MT19937, as in PyTorch.
  void manual_seed(std::uint64_t seed);
  std::uint64_t initial_seed() const;

  /// 32 random bits; and two draws as one number, the first in the upper half.
  std::uint32_t random32();
  std::uint64_t random64();
  /// A number in [0, 2^63): what `torch.empty((), dtype=int64).random_()` draws.
  std::int64_t random_int64();

  /// Uniform in [low, high), one draw each (24 bits), or two for double (53 bits).
  void uniform(std::span<float> out, double low, double high);
  void uniform(std::span<double> out, double low, double high);
  /// Normal by Box-Muller; spans of 16 and more take PyTorch's vectorised order.
  void normal(std::span<float> out, double mean, double std);
  void normal(std::span<double> out, double mean, double std);
  /// Integers in [low, high). REQUIRES: low < high.
  void integers(std::span<std::int64_t> out, std::int64_t low, std::int64_t high);
  /// 0 .. n-1 in random order.
  std::vector<std::int64_t> permutation(std::int64_t n);

  /// The full state, for checkpoints: restoring it continues the same stream.
  struct State {
    std::uint64_t seed = 0;
    std::array<std::uint32_t, 624> words{};
    int next = 624;
    bool has_normal = false;
    double normal = 0;
  };
  State state() const;
  void set_state(const State& state);

 private:
  struct Counters {
    std::uint64_t seed;
    std::uint32_t rank, call, block;
  };
  explicit Generator(const Counters& counters) : counters_(counters) {}

  std::uint32_t draw32();
  std::uint64_t draw64();
  double draw_uniform53();
  double draw_normal();
  void refill();

  mutable std::mutex mutex_;
  State state_;
  std::optional<Counters> counters_;  // none: MT19937
};

/// The process-wide generator behind rand, randn, randint, randperm and initialisation.
Generator& default_generator();

/// Inside a replica: the stream of this thread's next factory call.
Generator replica_generator();

/// Seeds the default generator and starts this thread's dropout calls again.
void manual_seed(std::uint64_t seed);

/// The key of the next dropout of this thread for a tensor with `rows` rows; counts the call.
DropoutKey next_dropout_key(std::int64_t rows, double p);

}  // namespace tandem
