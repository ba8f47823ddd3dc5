#include <tandem/core/trace.h>

#include <array>
#include <atomic>

namespace tandem::trace {
namespace {

struct Counters {
  std::atomic<std::int64_t> in_count{0}, in_bytes{0}, out_count{0}, out_bytes{0};

  Copies read() const {
    return {in_count.load(std::memory_order_relaxed), in_bytes.load(std::memory_order_relaxed),
            out_count.load(std::memory_order_relaxed), out_bytes.load(std::memory_order_relaxed)};
  }
};

std::array<Counters, 2 * kMaxDevices> counters;

thread_local constinit std::int64_t flops_of_thread = 0;

std::atomic<std::int64_t> conversions{0}, reshapes{0};

Counters& of(Device d) {
  return counters[std::hash<Device>{}(d)];
}

}  // namespace

Copies copies(Device device) {
  return of(device).read();
}

Copies all_copies() {
  Copies sum;
  for (const Counters& c : counters) {
    const Copies x = c.read();
    sum.in_count += x.in_count;
    sum.in_bytes += x.in_bytes;
    sum.out_count += x.out_count;
    sum.out_bytes += x.out_bytes;
  }
  return sum;
}

void count_copy(Device from, Device to, std::int64_t bytes) {
  of(to).in_count.fetch_add(1, std::memory_order_relaxed);
  of(to).in_bytes.fetch_add(bytes, std::memory_order_relaxed);
  of(from).out_count.fetch_add(1, std::memory_order_relaxed);
  of(from).out_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

std::int64_t flops() {
  return flops_of_thread;
}

void count_flops(std::int64_t flops) {
  flops_of_thread += flops;
}

LayoutCopies layout_copies() {
  return {conversions.load(std::memory_order_relaxed), reshapes.load(std::memory_order_relaxed)};
}

void count_conversion() {
  conversions.fetch_add(1, std::memory_order_relaxed);
}

void count_reshape() {
  reshapes.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tandem::trace
