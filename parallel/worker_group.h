// Chapter 3: the worker group. Who does the work.
//
// The problem: every rank needs a thread, for every forward and every backward; making threads each
//              time costs more than a small layer, and threads that wait must not burn a core.
// The idea:    rank 0 is the caller itself; ranks 1.. have a thread each for the life of the group.
//              Whoever waits looks for a moment (50 microseconds, if every rank has a core), then
//              sleeps.
// What it costs: one hand-over and one wake-up per run; about 10 microseconds if the others still
//              look, 40 to 80 if they sleep.
// What can go wrong: a rank throws. All ranks stop before run() throws ReplicaError, which knows
//              every failure. A rank that waits for another would hang then: so both things that
//              ranks wait for are released on failure too: the latch of chapter 2 by a destructor,
//              a meeting (meeting.h) by the end of the job that does not come.
// Next: parallel_apply.h.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tandem/core/device.h>
#include <tandem/core/error.h>
#include <tandem/core/thread_state.h>
#include <tandem/parallel/meeting.h>

namespace tandem::parallel {

/// What went wrong in the replicas of one forward or backward: failures in rank order, but those of
/// ranks that only missed another one (MeetingError) last. The first one's exception is nested in
/// it (std::rethrow_if_nested).
class ReplicaError : public Error {
 public:
  struct Failure {
    int rank;
    Device device;
    std::int64_t first_row, rows;  // of the batch; 0 rows if the job was not about rows
    std::exception_ptr exception;
    std::string message;
  };
  ReplicaError(const std::string& message, std::vector<Failure> failures)
      : Error(message), failures_(std::move(failures)) {}

  const std::vector<Failure>& failures() const { return failures_; }
  /// Is the first cause a T?
  template <class T>
  bool first_is() const {
    try {
      std::rethrow_exception(failures_.front().exception);
    } catch (const T&) {
      return true;
    } catch (...) {
      return false;
    }
  }

 private:
  std::vector<Failure> failures_;
};

/// One thread per device. Thread safety: one run() at a time; the owner has the lock.
class WorkerGroup {
 public:
  explicit WorkerGroup(std::vector<Device> devices);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  using Job = std::function<void(int rank)>;
  /// The rows a rank works on: set in its ReplicaContext, named in errors.
  struct Rows {
    std::int64_t first = 0, count = 0;
  };

  /// job(rank) for each of `ranks` (rising), each with the caller's thread state, its own default
  /// device and its place in ReplicaContext. Returns when all have stopped; throws ReplicaError if
  /// any of them threw. The caller's random call counter moves to the largest that a rank reached.
  /// Jobs are borrowed, never owned: a worker can not hold the last reference to its own group.
  /// REQUIRES: not called from inside a replica.
  void run(std::span<const int> ranks, const Job& job, std::span<const Rows> rows = {});

  const std::vector<Device>& devices() const { return devices_; }
  /// Where the ranks of a run meet.
  Meeting& meeting() { return meeting_; }
  /// The group that this thread is a replica of, or null.
  static WorkerGroup* current();

 private:
  struct alignas(64) Worker {
    std::atomic<const Job*> job{nullptr};
    std::mutex mutex;
    std::condition_variable wake;
    Rows rows;
    std::exception_ptr error;
    std::uint32_t random_calls = 0;
    std::thread thread;
  };
  void serve(int rank);
  void run_job(int rank, const Job& job);
  void raise(std::span<const int> ranks);

  std::vector<Device> devices_;
  std::chrono::microseconds spin_;
  Meeting meeting_;
  std::vector<std::unique_ptr<Worker>> workers_;
  ThreadState state_;  // the caller's; written before jobs are posted
  std::atomic<bool> stop_{false};
  std::atomic<int> left_{0};
  // Outlive every run: a worker may touch them after the last decrement of left_.
  std::mutex mutex_;
  std::condition_variable done_;
};

}  // namespace tandem::parallel
