// When the operations of the streams run. See Note [Three schedules] in cudasim.h.
//
// CUDA's rule that an event wait captures only work already recorded makes the lazy schedule free
// of deadlocks: what a stream waits for was always issued before, so the chain from a stream to
// the one it waits for ends.
#include "runtime/state.h"

#include <algorithm>

namespace cudasim {
namespace {

bool may_run(const CUstream_st& stream) {
  if (stream.busy || stream.queue.empty()) return false;
  const Operation& op = stream.queue.front();
  return op.kind != Operation::Kind::wait || op.recording->done;
}

// Lazy: the stream to advance so that `wanted` advances: itself, or whom its head waits for.
CUstream_st* lazy_choice(CUstream_st* wanted) {
  while (wanted && !may_run(*wanted)) {
    if (wanted->busy || wanted->queue.empty()) return nullptr;
    wanted = wanted->queue.front().recording->stream;
  }
  return wanted;
}

// Random: mostly the ready stream that drew the highest rank, so that some streams run far ahead of
// others; a uniform choice would keep them all abreast and miss most missing waits.
CUstream_st* random_choice(State& s) {
  std::vector<CUstream_st*> ready;
  for (auto& stream : s.streams)
    if (may_run(*stream)) ready.push_back(stream.get());
  if (ready.empty()) return nullptr;
  if (s.random() % 4 == 0) return ready[s.random() % ready.size()];
  return *std::max_element(ready.begin(), ready.end(),
                           [](auto* a, auto* b) { return a->rank < b->rank; });
}

void finish(State& s, CUstream_st& stream) {
  stream.token.release();
  stream.busy = false;
  ++stream.done;
  ++s.statistics.operations_run;
  s.changed.notify_all();
}

void run_work(State& s, Lock& lock, Operation& op) {
  if (op.check) {
    std::string text = op.check();
    if (!text.empty()) return violation(s, op.what + " " + text);
  }
  if (!s.gated()) lock.unlock();
  op.run();
  if (!s.gated()) lock.lock();
  if (op.after) op.after();
}

void run_host_function(const Operation& op) {
  ThreadState& thread = this_thread();
  thread.in_host_function = true;
  {
    Loud loud;
    op.run();
  }
  thread.in_host_function = false;
}

// A host function may block until the host does something, so it must neither hold the lock nor
// occupy the thread that happens to wait: it gets a thread for itself.
void hand_over(State& s, CUstream_st& stream, Operation op) {
  if (stream.worker.joinable()) stream.worker.join();  // the one before, which has finished
  stream.worker = std::thread([&s, &stream, op = std::move(op)] {
    Quiet quiet;
    op.issued.acquire();
    run_host_function(op);
    Lock lock(s.mutex);
    finish(s, stream);
  });
}

// Runs the head of `stream`, which may run.
void step(State& s, Lock& lock, CUstream_st& stream) {
  Operation op = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.busy = true;
  op.issued.acquire();
  const bool lost = s.devices[stream.device].lost != cudaSuccess;
  switch (op.kind) {
    case Operation::Kind::work:
      if (!lost) run_work(s, lock, op);
      break;
    case Operation::Kind::record:
      op.recording->token.release();
      op.recording->when = std::chrono::steady_clock::now();
      op.recording->done = true;
      break;
    case Operation::Kind::wait:
      op.recording->token.acquire();
      break;
    case Operation::Kind::host_function:
      if (lost) break;
      if (s.gated()) return hand_over(s, stream, std::move(op));
      lock.unlock();
      run_host_function(op);
      lock.lock();
      break;
  }
  finish(s, stream);
}

bool anyone_busy(const State& s) {
  for (auto& stream : s.streams)
    if (stream->busy) return true;
  return false;
}

template <class Done>
void drain(State& s, Lock& lock, CUstream_st* wanted, Done&& done) {
  while (!done()) {
    if (!s.gated()) {
      s.changed.wait(lock);
      continue;
    }
    CUstream_st* next =
        s.config.schedule == Schedule::random ? random_choice(s) : lazy_choice(wanted);
    if (next) {
      step(s, lock, *next);
    } else if (anyone_busy(s)) {
      s.changed.wait(lock);
    } else {
      return violation(s, "a wait that can never end");
    }
  }
}

void work_forever(State& s, CUstream_st& stream) {
  Quiet quiet;
  Lock lock(s.mutex);
  for (;;) {
    s.changed.wait(lock, [&] { return stream.stop || may_run(stream); });
    if (stream.stop) return;
    step(s, lock, stream);
  }
}

}  // namespace

void enqueue(State& s, Lock& lock, CUstream_st& stream, Operation op) {
  op.issued.release();
  stream.queue.push_back(std::move(op));
  ++stream.issued;
  if (s.config.schedule == Schedule::random)
    for (std::uint64_t n = s.random() % 4 == 0 ? 1 + s.random() % 3 : 0; n > 0; --n)
      if (CUstream_st* next = random_choice(s)) step(s, lock, *next);
  s.changed.notify_all();
}

void wait_for(State& s, Lock& lock, CUstream_st& stream) {
  const std::uint64_t target = stream.issued;
  drain(s, lock, &stream, [&] { return stream.done >= target; });
}

void wait_for(State& s, Lock& lock, const std::shared_ptr<Recording>& recording) {
  drain(s, lock, recording->stream, [&] { return recording->done; });
}

void wait_for_device(State& s, Lock& lock, int device) {
  for (std::size_t i = 0; i < s.streams.size(); ++i)  // by index: waiting lets others add streams
    if (s.streams[i]->device == device) wait_for(s, lock, *s.streams[i]);
}

void poll(State& s, Lock& lock, CUstream_st& stream) {
  if (!s.gated()) return;
  CUstream_st* next =
      s.config.schedule == Schedule::random ? random_choice(s) : lazy_choice(&stream);
  if (next) step(s, lock, *next);
}

void start_worker(State& s, CUstream_st& stream) {
  if (!s.gated()) stream.worker = std::thread([&] { work_forever(s, stream); });
}

void stop_workers(State& s, Lock& lock) {
  for (auto& stream : s.streams) stream->stop = true;
  s.changed.notify_all();
  lock.unlock();
  for (auto& stream : s.streams)
    if (stream->worker.joinable()) stream->worker.join();
  lock.lock();
}

}  // namespace cudasim
