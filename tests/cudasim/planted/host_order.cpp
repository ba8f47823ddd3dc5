// Planted defects in the order of things: an event, a wait or a synchronisation is missing. On a
// real GPU most of these programs are right most of the time.
#include "planted/host_support.h"

#include <array>
#include <barrier>
#include <memory>
#include <mutex>
#include <thread>

using namespace planted;

PLANTED(missing_event_wait, "a stream reads what another writes, without waiting", lazy_and_tsan) {
  Stream producer, consumer;
  Event ready;
  OnGpu data(kCount), copy(kCount);
  Pinned in(kCount), out(kCount);
  fill(in, 5);
  ok(cudaMemsetAsync(copy, 0, kBytes, consumer));
  ok(cudaMemcpyAsync(data, in, kBytes, cudaMemcpyHostToDevice, producer));
  ok(cudaEventRecord(ready, producer));
  if (!defect) ok(cudaStreamWaitEvent(consumer, ready, 0));
  ok(cudaMemcpyAsync(copy, data, kBytes, cudaMemcpyDeviceToDevice, consumer));
  ok(cudaMemcpyAsync(out, copy, kBytes, cudaMemcpyDeviceToHost, consumer));
  consumer.synchronize();
  const bool right = all(out, 5);
  producer.synchronize();
  return right;
}

PLANTED(wait_before_record, "a wait issued before the record it means", lazy_and_tsan) {
  Stream producer, consumer;
  Event ready;
  OnGpu data(kCount);
  Pinned in(kCount), out(kCount);
  fill(in, 6);
  if (defect) ok(cudaStreamWaitEvent(consumer, ready, 0));  // waits for nothing
  ok(cudaMemcpyAsync(data, in, kBytes, cudaMemcpyHostToDevice, producer));
  ok(cudaEventRecord(ready, producer));
  if (!defect) ok(cudaStreamWaitEvent(consumer, ready, 0));
  ok(cudaMemcpyAsync(out, data, kBytes, cudaMemcpyDeviceToHost, consumer));
  consumer.synchronize();
  const bool right = all(out, 6);
  producer.synchronize();
  return right;
}

PLANTED(record_too_early, "an event recorded before the work it is to stand for", lazy_and_tsan) {
  Stream producer, consumer;
  Event ready;
  OnGpu data(kCount);
  Pinned in(kCount), out(kCount);
  fill(in, 7);
  if (defect) ok(cudaEventRecord(ready, producer));
  ok(cudaMemcpyAsync(data, in, kBytes, cudaMemcpyHostToDevice, producer));
  if (!defect) ok(cudaEventRecord(ready, producer));
  ok(cudaStreamWaitEvent(consumer, ready, 0));
  ok(cudaMemcpyAsync(out, data, kBytes, cudaMemcpyDeviceToHost, consumer));
  consumer.synchronize();
  const bool right = all(out, 7);
  producer.synchronize();
  return right;
}

PLANTED(host_read_without_sync, "the host reads a pinned buffer without waiting", lazy_and_tsan) {
  Stream stream;
  OnGpu data(kCount);
  Pinned in(kCount), out(kCount);
  fill(in, 8);
  fill(out, 0);
  ok(cudaMemcpyAsync(data, in, kBytes, cudaMemcpyHostToDevice, stream));
  ok(cudaMemcpyAsync(out, data, kBytes, cudaMemcpyDeviceToHost, stream));
  if (!defect) stream.synchronize();
  const bool right = all(out, 8);
  stream.synchronize();
  return right;
}

PLANTED(wrong_stream_waited_for, "the host waits for another stream than it means", lazy_and_tsan) {
  Stream compute, transfer;
  OnGpu data(kCount);
  Pinned in(kCount), out(kCount);
  fill(in, 9);
  fill(out, 0);
  ok(cudaMemcpyAsync(data, in, kBytes, cudaMemcpyHostToDevice, transfer));
  ok(cudaMemcpyAsync(out, data, kBytes, cudaMemcpyDeviceToHost, transfer));
  (defect ? compute : transfer).synchronize();
  const bool right = all(out, 9);
  transfer.synchronize();
  return right;
}

PLANTED(pinned_source_reused, "a pinned source is overwritten before its copy ran", lazy_and_tsan) {
  Stream stream;
  OnGpu first(kCount), second(kCount);
  Pinned staging(kCount), out(kCount);
  fill(staging, 1);
  ok(cudaMemcpyAsync(first, staging, kBytes, cudaMemcpyHostToDevice, stream));
  if (!defect) stream.synchronize();
  fill(staging, 2);
  ok(cudaMemcpyAsync(second, staging, kBytes, cudaMemcpyHostToDevice, stream));
  ok(cudaMemcpyAsync(out, first, kBytes, cudaMemcpyDeviceToHost, stream));
  stream.synchronize();
  return all(out, 1);
}

PLANTED(staging_ring, "a ring of staging buffers comes round before the copy has left it",
        lazy_and_tsan) {
  constexpr int kSlots = 2, kBatches = 5;
  Stream stream;
  OnGpu data(kCount * kBatches);
  std::array<Event, kSlots> left;
  Pinned slot0(kCount), slot1(kCount), out(kCount * kBatches);
  const std::array<int*, kSlots> slots = {slot0, slot1};
  for (int b = 0; b < kBatches; ++b) {
    if (!defect) ok(cudaEventSynchronize(left[b % kSlots]));
    fill(slots[b % kSlots], b);
    ok(cudaMemcpyAsync(data + b * kCount, slots[b % kSlots], kBytes, cudaMemcpyHostToDevice,
                       stream));
    ok(cudaEventRecord(left[b % kSlots], stream));
  }
  ok(cudaMemcpyAsync(out, data, kBytes * kBatches, cudaMemcpyDeviceToHost, stream));
  stream.synchronize();
  bool right = true;
  for (int b = 0; b < kBatches; ++b) right = right && all(out + b * kCount, b);
  return right;
}

PLANTED(buffer_reused_across_streams, "a buffer goes to another stream while the first still reads",
        lazy_and_tsan) {
  Stream reader, writer;
  Event done;
  OnGpu scratch(kCount);
  Pinned in(kCount), out(kCount);
  fill(in, 3);
  ok(cudaMemcpyAsync(scratch, in, kBytes, cudaMemcpyHostToDevice, reader));
  reader.synchronize();
  ok(cudaMemcpyAsync(out, scratch, kBytes, cudaMemcpyDeviceToHost, reader));
  ok(cudaEventRecord(done, reader));
  if (!defect) ok(cudaStreamWaitEvent(writer, done, 0));
  ok(cudaMemsetAsync(scratch, 0, kBytes, writer));
  writer.synchronize();
  reader.synchronize();
  return all(out, 3);
}

PLANTED(blocking_copy_past_stream, "cudaMemcpy does not wait for a non-blocking stream",
        lazy_and_tsan) {
  Stream stream;
  OnGpu data(kCount);
  Pinned in(kCount);
  fill(in, 4);
  ok(cudaMemcpyAsync(data, in, kBytes, cudaMemcpyHostToDevice, stream));
  if (!defect) stream.synchronize();
  std::vector<int> out(kCount, 0);
  ok(cudaMemcpy(out.data(), data, kBytes, cudaMemcpyDeviceToHost));
  const bool right = all(out.data(), 4);
  stream.synchronize();
  return right;
}

// ---- three replicas, one host thread each, that gather to the first and share the result
// ---------

namespace {

constexpr int kReplicas = 3, kSteps = 2;

enum class Missing {
  none,
  ready_in_second_step,  // the first replica does not wait for the last one's gradient
  result,                // the others do not wait for the result
  release,               // the first replica overwrites the result before it has been fetched
};

int gradient(int step, int rank) {
  return 100 * (step + 1) + rank;
}

struct Replica {
  explicit Replica(int rank)
      : mine(kCount), gathered(kCount * kReplicas), in(kCount * kSteps), out(kCount * kReplicas) {
    for (int step = 0; step < kSteps; ++step) fill(in + step * kCount, gradient(step, rank));
  }
  Stream stream;
  Event ready, finished;
  OnGpu mine, gathered;
  Pinned in, out;
};

class Exchange {
 public:
  explicit Exchange(Missing missing) : missing_(missing) {}

  bool run() {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kReplicas; ++rank) threads.emplace_back([this, rank] { work(rank); });
    for (std::thread& t : threads) t.join();
    return right_;
  }

 private:
  void work(int rank) {
    ok(cudaSetDevice(rank));
    replicas_[rank] = std::make_unique<Replica>(rank);
    Replica& me = *replicas_[rank];
    for (int step = 0; step < kSteps; ++step) {
      ok(cudaMemcpyAsync(me.mine, me.in + step * kCount, kBytes, cudaMemcpyHostToDevice,
                         me.stream));
      ok(cudaEventRecord(me.ready, me.stream));
      barrier_.arrive_and_wait();
      if (rank == 0) gather(step);
      barrier_.arrive_and_wait();
      if (rank != 0) fetch(rank);
      barrier_.arrive_and_wait();
      if (rank == 0 && missing_ != Missing::release)
        for (int q = 1; q < kReplicas; ++q)
          ok(cudaStreamWaitEvent(me.stream, replicas_[q]->finished, 0));
    }
    if (rank != 0) check(me);
    barrier_.arrive_and_wait();
    if (rank == 0) check(me);
    barrier_.arrive_and_wait();
    ok(cudaDeviceSynchronize());
    barrier_.arrive_and_wait();
    replicas_[rank].reset();
  }

  void gather(int step) {
    Replica& root = *replicas_[0];
    for (int q = 0; q < kReplicas; ++q) {
      const bool skip =
          missing_ == Missing::ready_in_second_step && step == 1 && q == kReplicas - 1;
      if (!skip) ok(cudaStreamWaitEvent(root.stream, replicas_[q]->ready, 0));
      ok(cudaMemcpyPeerAsync(root.gathered + q * kCount, 0, replicas_[q]->mine, q, kBytes,
                             root.stream));
    }
    ok(cudaEventRecord(root.finished, root.stream));
  }

  void fetch(int rank) {
    Replica &me = *replicas_[rank], &root = *replicas_[0];
    if (missing_ != Missing::result) ok(cudaStreamWaitEvent(me.stream, root.finished, 0));
    ok(cudaMemcpyPeerAsync(me.gathered, rank, root.gathered, 0, kBytes * kReplicas, me.stream));
    ok(cudaEventRecord(me.finished, me.stream));
  }

  void check(const Replica& me) {
    ok(cudaMemcpyAsync(me.out, me.gathered, kBytes * kReplicas, cudaMemcpyDeviceToHost, me.stream));
    me.stream.synchronize();
    bool right = true;
    for (int q = 0; q < kReplicas; ++q)
      right = right && all(me.out + q * kCount, gradient(kSteps - 1, q));
    std::lock_guard lock(mutex_);
    right_ = right_ && right;
  }

  Missing missing_;
  std::barrier<> barrier_{kReplicas};
  std::array<std::unique_ptr<Replica>, kReplicas> replicas_;
  std::mutex mutex_;
  bool right_ = true;
};

}  // namespace

PLANTED(missing_ready, "the reducer reads a peer's gradient one step too early", tsan) {
  return Exchange(defect ? Missing::ready_in_second_step : Missing::none).run();
}

PLANTED(missing_result, "a replica fetches the result before it is complete", lazy_and_tsan) {
  return Exchange(defect ? Missing::result : Missing::none).run();
}

PLANTED(missing_release, "the result is overwritten before the others have fetched it", tsan) {
  return Exchange(defect ? Missing::release : Missing::none).run();
}
