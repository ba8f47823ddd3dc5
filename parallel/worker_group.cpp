#include <tandem/parallel/worker_group.h>

#include <algorithm>
#include <utility>

#include <tandem/core/autocast.h>

namespace tandem::parallel {

namespace {

// How long to look before sleeping: not at all if somebody else needs the core.
std::chrono::microseconds time_to_look(std::size_t ranks) {
  const bool room = ranks <= std::max(1u, std::thread::hardware_concurrency());
  return std::chrono::microseconds(room ? 50 : 0);
}

// Is it about another rank's absence, whose own failure says more?
bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const MeetingError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

WorkerGroup::WorkerGroup(std::vector<Device> devices)
    : devices_(std::move(devices)), spin_(time_to_look(devices_.size())), meeting_(spin_) {
  for (std::size_t r = 0; r < devices_.size(); ++r) workers_.push_back(std::make_unique<Worker>());
  for (std::size_t r = 1; r < devices_.size(); ++r) {
    workers_[r]->thread = std::thread([this, r] { serve(int(r)); });
  }
}

WorkerGroup::~WorkerGroup() {
  stop_.store(true);
  for (auto& w : workers_) {
    { const std::lock_guard lock(w->mutex); }
    w->wake.notify_one();
  }
  for (auto& w : workers_) {
    if (w->thread.joinable()) w->thread.join();
  }
}

WorkerGroup* WorkerGroup::current() {
  return static_cast<WorkerGroup*>(const_cast<void*>(thread_state().replica.group));
}

void WorkerGroup::run_job(int rank, const Job& job) {
  Worker& me = *workers_[std::size_t(rank)];
  ThreadState& state = thread_state();
  const ThreadState before = std::exchange(state, state_);
  state.default_device = devices_[std::size_t(rank)];
  state.replica = {.group = this,
                   .rank = rank,
                   .ranks = int(devices_.size()),
                   .first_row = me.rows.first,
                   .rows = me.rows.count};
  try {
    const OwnCasts own_casts;
    job(rank);
  } catch (...) {
    me.error = std::current_exception();
  }
  meeting_.leave(rank, me.error && !is_consequence(me.error));
  me.random_calls = state.random_calls;
  state = before;
}

void WorkerGroup::serve(int rank) {
  Worker& me = *workers_[std::size_t(rank)];
  const auto ready = [&] {
    return me.job.load(std::memory_order_acquire) != nullptr || stop_.load();
  };
  for (;;) {
    if (!look_for(spin_, ready)) {
      std::unique_lock lock(me.mutex);
      me.wake.wait(lock, ready);
    }
    const Job* job = me.job.load(std::memory_order_acquire);
    if (job == nullptr) return;
    run_job(rank, *job);
    me.job.store(nullptr, std::memory_order_relaxed);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      { const std::lock_guard lock(mutex_); }
      done_.notify_one();
    }
  }
}

void WorkerGroup::run(std::span<const int> ranks, const Job& job, std::span<const Rows> rows) {
  check(!thread_state().replica.active(),
        "[data_parallel] called from inside a replica. A replica's forward and backward are plain "
        "computations on one device");
  state_ = thread_state();
  meeting_.open(ranks);
  const bool mine = ranks.front() == 0;
  left_.store(int(ranks.size()) - int(mine), std::memory_order_relaxed);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Worker& w = *workers_[std::size_t(ranks[i])];
    w.rows = rows.empty() ? Rows{} : rows[i];
    if (ranks[i] == 0) continue;
    {
      const std::lock_guard lock(w.mutex);
      w.job.store(&job, std::memory_order_release);
    }
    w.wake.notify_one();
  }
  if (mine) run_job(0, job);
  const auto finished = [&] { return left_.load(std::memory_order_acquire) == 0; };
  if (!look_for(spin_, finished)) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, finished);
  }
  for (int r : ranks) {
    std::uint32_t& calls = thread_state().random_calls;
    calls = std::max(calls, workers_[std::size_t(r)]->random_calls);
  }
  raise(ranks);
}

void WorkerGroup::raise(std::span<const int> ranks) {
  std::vector<ReplicaError::Failure> failures;
  for (int r : ranks) {
    Worker& w = *workers_[std::size_t(r)];
    const std::exception_ptr error = std::exchange(w.error, nullptr);
    if (!error) continue;
    std::string message = "unknown exception";
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      message = e.what();
    } catch (...) {
    }
    failures.push_back({r, devices_[std::size_t(r)], w.rows.first, w.rows.count, error, message});
  }
  if (failures.empty()) return;
  std::stable_partition(failures.begin(), failures.end(),
                        [](const auto& f) { return !is_consequence(f.exception); });
  std::string text =
      str("[data_parallel] ", failures.size(), " of ", ranks.size(), " replicas failed");
  for (const auto& f : failures) {
    text += str("\n  replica ", f.rank, " on ", f.device);
    if (f.rows > 0) text += str(" (rows ", f.first_row, " to ", f.first_row + f.rows - 1, ")");
    text += ": " + f.message;
  }
  const std::exception_ptr first = failures.front().exception;
  try {
    std::rethrow_exception(first);
  } catch (...) {
    std::throw_with_nested(ReplicaError(text, std::move(failures)));
  }
}

}  // namespace tandem::parallel
