#include <tandem/parallel/meeting.h>

#include <algorithm>
#include <utility>

namespace tandem::parallel {

void Meeting::open(std::span<const int> ranks) {
  const std::lock_guard lock(mutex_);
  ranks_.assign(ranks.begin(), ranks.end());
  current_.reset();
  completed_ = 0;
  left_ = 0;
  first_left_ = -1;
  first_failed_ = false;
}

std::shared_ptr<Meeting::Round> Meeting::make_round(std::int64_t number) const {
  auto round = std::make_shared<Round>();
  round->given.resize(ranks_.size());
  round->places.resize(ranks_.size());
  round->number = number;
  return round;
}

// A rank that failed is named before one that only finished.
void Meeting::refuse_if_left(const char* who) {
  if (left_ == 0) return;
  throw MeetingError(
      first_failed_
          ? str("[", who, "] replica ", first_left_, " failed; this one waited for it here")
          : str("[", who, "] replica ", first_left_,
                " finished without coming here. Every replica that has rows must call the layer, "
                "and every replica's output must be part of the loss"));
}

Meeting::Exchanged Meeting::exchange(int rank, const char* who, const Place& place, Numbers mine) {
  std::shared_ptr<Round> round;
  {
    const std::lock_guard lock(mutex_);
    refuse_if_left(who);
    if (!current_) current_ = make_round(completed_);
    round = current_;
    const auto me = std::size_t(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
    round->given[me] = std::move(mine);
    round->places[me] = place;
    if (++round->arrived == ranks_.size()) {
      ++completed_;
      current_.reset();
      round->complete.store(true, std::memory_order_release);
      changed_.notify_all();
    }
  }
  const auto over = [&] { return round->complete.load(std::memory_order_acquire) || left_ > 0; };
  if (!look_for(spin_, over)) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, over);
  }
  if (!round->complete.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    // Complete by now, if the last rank came and left between the two looks.
    if (!round->complete.load(std::memory_order_relaxed)) refuse_if_left(who);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (round->places[i] == place) continue;
    throw MeetingError(str("[", who, "] replica ", rank, " and replica ", ranks_[i],
                           " came to different layers at once. All replicas must call the same "
                           "layers in the same order"));
  }
  return {round->given, round->number};
}

void Meeting::leave(int rank, bool failed) noexcept {
  const std::lock_guard lock(mutex_);
  if (first_left_ < 0 || (failed && !first_failed_)) {
    first_left_ = rank;
    first_failed_ = failed;
  }
  ++left_;
  if (current_) changed_.notify_all();
}

}  // namespace tandem::parallel
