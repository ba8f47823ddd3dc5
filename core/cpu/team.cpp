#include <tandem/core/cpu/team.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/core/environment.h>
#include <tandem/core/error.h>
#include <tandem/core/look_for.h>
#include <tandem/core/thread_state.h>
#include <tandem/core/threads.h>

namespace tandem {
namespace {

constexpr double kWorthAPart = 25000;  // nanoseconds

std::atomic<int>& wanted() {
  static std::atomic<int> n{
      number_in_environment("threads", "TANDEM_THREADS_PER_DEVICE", kMostThreadsPerDevice)
          .value_or(1)};
  return n;
}

// Threads of the teams that have helpers. Whoever waits looks for a moment only if all of them find
// a core.
std::atomic<int> in_teams{0};

std::chrono::microseconds time_to_look() {
  const bool room = in_teams.load(std::memory_order_relaxed) <=
                    int(std::max(1u, std::thread::hardware_concurrency()));
  return std::chrono::microseconds(room ? 50 : 0);
}

// Work that is under way; lives on its caller's stack. Threads take the next part until none is
// left.
struct Job {
  const std::function<void(int)>& f;
  const int parts;
  const ThreadState state = thread_state();  // the caller's, for helpers
  std::atomic<int> next{0};
  std::mutex mutex{};
  int failed = std::numeric_limits<int>::max();  // under the mutex, like its error
  std::exception_ptr error{};

  void work() {
    for (int part; (part = next.fetch_add(1, std::memory_order_relaxed)) < parts;) {
      try {
        f(part);
      } catch (...) {
        next.store(parts, std::memory_order_relaxed);
        const std::lock_guard lock(mutex);
        if (part < failed) failed = part, error = std::current_exception();
      }
    }
  }
};

/// The helpers of one device.
class Team {
 public:
  void run(int parts, const std::function<void(int)>& f) {
    Job job{f, parts};
    if (busy_.exchange(true, std::memory_order_acquire)) {
      job.work();
    } else {
      resize(wanted().load(std::memory_order_relaxed) - 1);
      share(job);
      busy_.store(false, std::memory_order_release);
    }
    if (job.error) std::rethrow_exception(job.error);
  }

  /// Ends helpers beyond `most`. In a forked child there is nothing to end.
  void shrink(int most) {
    if (process_.load(std::memory_order_relaxed) != getpid()) return;
    while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    resize(std::min(most, int(helpers_.size())));
    busy_.store(false, std::memory_order_release);
  }

 private:
  struct alignas(64) Helper {
    std::atomic<Job*> job{nullptr};
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::condition_variable wake;
    std::thread thread;
  };

  // A helper that has not come when all parts are taken is not waited for: its job is taken back.
  void share(Job& job) {
    const auto asked = std::min(std::size_t(job.parts - 1), helpers_.size());
    left_.store(int(asked), std::memory_order_relaxed);
    for (std::size_t i = 0; i < asked; ++i) {
      Helper& h = *helpers_[i];
      {
        const std::lock_guard lock(h.mutex);
        h.job.store(&job, std::memory_order_release);
      }
      h.wake.notify_one();
    }
    job.work();
    for (std::size_t i = 0; i < asked; ++i) {
      if (helpers_[i]->job.exchange(nullptr, std::memory_order_acq_rel) == nullptr) continue;
      left_.fetch_sub(1, std::memory_order_relaxed);
    }
    const auto finished = [&] { return left_.load(std::memory_order_acquire) == 0; };
    if (look_for(time_to_look(), finished)) return;
    std::unique_lock lock(mutex_);
    done_.wait(lock, finished);
  }

  void serve(Helper& me) {
    const auto ready = [&] {
      return me.job.load(std::memory_order_relaxed) != nullptr ||
             me.stop.load(std::memory_order_relaxed);
    };
    for (;;) {
      if (!look_for(time_to_look(), ready)) {
        std::unique_lock lock(me.mutex);
        me.wake.wait(lock, ready);
      }
      if (Job* job = me.job.exchange(nullptr, std::memory_order_acq_rel)) {
        thread_state() = job->state;
        job->work();
        thread_state() = {};
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
          { const std::lock_guard lock(mutex_); }
          done_.notify_one();
        }
      } else if (me.stop.load()) {
        return;
      }
    }
  }

  // Under busy_.
  void resize(int count) {
    if (process_.load(std::memory_order_relaxed) != getpid()) {
      for (auto& helper : helpers_) static_cast<void>(helper.release());  // not in a forked child
      helpers_.clear();
      process_.store(getpid(), std::memory_order_relaxed);
    }
    while (int(helpers_.size()) > count) end_last();
    while (int(helpers_.size()) < count && start_one()) {
    }
  }

  // If the system has no more threads, fewer do it.
  bool start_one() {
    auto helper = std::make_unique<Helper>();
    try {
      helper->thread = std::thread([this, h = helper.get()] { serve(*h); });
    } catch (const std::system_error&) {
      return false;
    }
    helpers_.push_back(std::move(helper));
    in_teams.fetch_add(helpers_.size() == 1 ? 2 : 1, std::memory_order_relaxed);
    return true;
  }

  void end_last() {
    Helper& h = *helpers_.back();
    {
      const std::lock_guard lock(h.mutex);
      h.stop.store(true);
    }
    h.wake.notify_one();
    h.thread.join();
    in_teams.fetch_sub(helpers_.size() == 1 ? 2 : 1, std::memory_order_relaxed);
    helpers_.pop_back();
  }

  std::atomic<bool> busy_{false};  // who sets it may use what follows
  std::atomic<pid_t> process_{getpid()};
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::atomic<int> left_{0};  // helpers that may still touch the job
  // Outlive every job: a helper may touch them after the last decrement of left_.
  std::mutex mutex_;
  std::condition_variable done_;
};

// Never destroyed, like the devices; helpers end when the program does.
std::array<Team, kMaxDevices>& teams() {
  static auto* all = [] {
    std::atexit([] { set_threads_per_device(1); });
    return new std::array<Team, kMaxDevices>;
  }();
  return *all;
}

}  // namespace

int threads_per_device() {
  return wanted().load(std::memory_order_relaxed);
}

void set_threads_per_device(int n) {
  check(n >= 1 && n <= kMostThreadsPerDevice, "[set_threads_per_device] ", n,
        " threads. Expected 1, the calling thread alone, to ", kMostThreadsPerDevice);
  wanted().store(n, std::memory_order_relaxed);
  for (Team& team : teams()) team.shrink(n - 1);
}

int host::parts_for(double nanoseconds) {
  const int threads = threads_per_device();
  if (threads == 1 || nanoseconds < 2 * kWorthAPart) return 1;
  return int(std::min(double(threads), nanoseconds / kWorthAPart));
}

void host::run_parts(Device device, int parts, const std::function<void(int)>& f) {
  teams()[std::size_t(device.index)].run(parts, f);
}

}  // namespace tandem
