// Where the ranks of one run of a worker group meet: each brings numbers and gets those of all.
//
// For layers that need the whole batch (sync_batch_norm.h). Ranks come as often as they like, all
// of them to the same places in the same order. Nobody waits for a rank that will not come: when a
// job ends, by returning or by throwing, whoever waits for it is refused, and so is whoever comes
// later in this run. The next run starts afresh. Owned by the group: worker_group.h.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/error.h>
#include <tandem/core/look_for.h>

namespace tandem::parallel {

/// Somebody did not come. Where a rank failed, this is what the others say, not the cause.
class MeetingError : public UsageError {
 public:
  using UsageError::UsageError;
};

/// Thread safety: exchange() and leave() from the ranks' threads at once; open() between runs.
class Meeting {
 public:
  using Numbers = std::vector<double>;
  /// What all ranks must agree on.
  struct Place {
    std::uint64_t layer = 0;
    bool backward = false;
    std::int64_t round = 0;  // backward: which exchange of the forward it belongs to
    bool operator==(const Place&) const = default;
  };
  struct Exchanged {
    std::vector<Numbers> all;  // in rank order
    std::int64_t round;        // how many exchanges of this run were complete before
  };

  explicit Meeting(std::chrono::microseconds spin) : spin_(spin) {}

  /// A new run of these ranks (rising).
  void open(std::span<const int> ranks);
  /// Waits for all ranks of the run. `who` begins the messages. Throws MeetingError if a rank has
  /// left, or has come to another place.
  Exchanged exchange(int rank, const char* who, const Place& place, Numbers mine);
  /// The rank's job is over. `failed`: by an error of its own, which is named before others.
  void leave(int rank, bool failed) noexcept;

 private:
  struct Round {
    std::vector<Numbers> given;  // [position in ranks_]
    std::vector<Place> places;
    std::int64_t number = 0;
    std::size_t arrived = 0;
    std::atomic<bool> complete{false};
  };
  std::shared_ptr<Round> make_round(std::int64_t number) const;
  void refuse_if_left(const char* who);

  const std::chrono::microseconds spin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> ranks_;
  std::shared_ptr<Round> current_;  // made by the first to come
  std::int64_t completed_ = 0;
  std::atomic<int> left_{0};
  int first_left_ = -1;  // the rank that is named to the others
  bool first_failed_ = false;
};

}  // namespace tandem::parallel
