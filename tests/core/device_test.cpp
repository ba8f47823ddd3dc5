// Naming devices, and the registry behind the names: core/device.h.
#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>
#include <unordered_set>

#include "tests/support/check.h"

#include <tandem/core/backend.h>
#include <tandem/core/device.h>
#include <tandem/core/memory.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("device: prints as kind and logical index") {
  CHECK(cpu(2).str() == "cpu:2");
  CHECK(str(cuda(0)) == "cuda:0");
  CHECK(str(Device{}) == "cpu:0");
}

TEST_CASE("device: reads what it prints, and a bare kind means index 0") {
  CHECK(Device::parse("cpu:2") == cpu(2));
  CHECK(Device::parse("cuda:7") == cuda(7));
  CHECK(Device::parse("cpu") == cpu(0));
  CHECK(Device::parse("cuda") == cuda(0));
  for (int i : {0, 1, 63}) CHECK(Device::parse(cpu(i).str()) == cpu(i));
}

TEST_CASE("device: anything else is an error that shows the text") {
  for (const char* text : {"", "gpu", "gpu:0", "cpu:", "cpu:x", "cpu:1x", "cpu:-1", "cpu: 1", "CPU",
                           ":1", "cpu:1:2", "cpu:99999999999999999999", "cpu:+1", " cpu"}) {
    INFO(text);
    CHECK(throws<UsageError>([&] { Device::parse(text); }, {text}));
  }
  CHECK(throws<UsageError>([] { Device::parse("cpu:64"); }, {"cpu:64", "63"}));
}

TEST_CASE("device: equal, ordered and hashed by kind and index") {
  CHECK(cpu(1) == cpu(1));
  CHECK(cpu(1) != cuda(1));
  std::set<Device> ordered;
  std::unordered_set<Device> hashed;
  std::set<std::size_t> hashes;
  for (int i = 0; i < kMaxDevices; ++i) {
    for (Device d : {cpu(i), cuda(i)}) {
      ordered.insert(d), hashed.insert(d), hashes.insert(std::hash<Device>{}(d));
    }
  }
  CHECK(ordered.size() == 128);
  CHECK(hashed.size() == 128);
  CHECK(hashes.size() == 128);
}

TEST_CASE(
    "device: without a GPU nothing is pinned, and between CPUs non_blocking changes nothing") {
  const Tensor x = tensor_of({1, 2, 3}, {3}, float32, cpu(0));
  CHECK(!x.is_pinned());
  if (device_count(cuda) == 0) CHECK(x.pin_memory().is_same(x));
  Tensor pinned = x.pin_memory();
  const Tensor y = pinned.to(cpu(1), {.non_blocking = true});
  pinned.fill_(0);
  CHECK(y.device() == cpu(1));
  CHECK(doubles(y) == std::vector<double>{1, 2, 3});
}

TEST_CASE("device: threads ask how many devices there are while one configures" * doctest::skip()) {
  std::vector<std::thread> threads;
  std::atomic<int> odd{0};
  const int before = device_count(cpu);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        const int n = device_count(cpu);
        odd += n != before && n != 61;
        odd += device_count(cuda) < 0;
      }
    });
  }
  configure_devices({.cpu_count = 61});
  for (std::thread& t : threads) t.join();
  CHECK(odd == 0);
  CHECK(device_count(cpu) == 61);
}

TEST_CASE("device: whoever asks for devices sees them before or after they are configured") {
  CHECK(passes_alone("device: threads ask how many devices there are while one configures"));
}

TEST_CASE("device: any CPU index below 64 works without being announced") {
  CHECK(doubles(tensor_of({1, 2}, {2}, float32, cpu(63))) == std::vector<double>{1, 2});
  CHECK(throws<DeviceError>([] { backend(cpu(64)); }, {"cpu:64", "63"}));
  CHECK(throws<DeviceError>([] { backend(cpu(-1)); }, {"cpu:-1"}));
}

TEST_CASE("device: without GPUs a CUDA device is an error that says why") {
  if (device_count(cuda) > 0) return;
  CHECK(!cuda_unavailable_reason().empty());
  CHECK(all_devices(cuda).empty());
  CHECK(throws<DeviceError>([] { tensor_of({1}, {1}, float32, cuda(0)); },
                            {"cuda:0", cuda_unavailable_reason().c_str()}));
}

TEST_CASE("device: all_devices lists device_count of them in order") {
  const std::vector<Device> all = all_devices(cpu);
  CHECK(int(all.size()) == device_count(cpu));
  CHECK(device_count(cpu) >= 1);
  for (int i = 0; i < int(all.size()); ++i) CHECK(all[std::size_t(i)] == cpu(i));
}

TEST_CASE("parse_devices: a list, or a number of devices of the kind") {
  CHECK(parse_devices("cpu:0,cpu:1") == std::vector<Device>{cpu(0), cpu(1)});
  CHECK(parse_devices("cpu:5") == std::vector<Device>{cpu(5)});
  CHECK(parse_devices("cpu:3,cpu:0") == std::vector<Device>{cpu(3), cpu(0)});
  CHECK(parse_devices("3") == devs(3));
  CHECK(parse_devices("cpu") == devs(1));
}

TEST_CASE("parse_devices: duplicates, gaps and odd numbers are refused") {
  CHECK(throws<UsageError>([] { parse_devices("cpu:1,cpu:1"); }, {"cpu:1", "twice"}));
  for (const char* text : {"", ",", "cpu:0,", ",cpu:0", "cpu:0,,cpu:1", "0", "-1", "65", "1.5",
                           "cpu:0;cpu:1", "2 ", "cpu:0, cpu:1"}) {
    INFO(text);
    CHECK(throws<UsageError>([&] { parse_devices(text); }));
  }
}

TEST_CASE("parse_devices: devices that do not exist are refused") {
  if (device_count(cuda) > 0) return;
  CHECK(throws<UsageError>([] { parse_devices("cuda"); }, {"CUDA"}));
  CHECK(throws<UsageError>([] { parse_devices("cuda:0"); }, {"cuda:0"}));
  CHECK(throws<UsageError>([] { parse_devices("cpu:0,cuda:1"); }, {"cuda:1"}));
  CHECK(throws<UsageError>([] { parse_devices("2", cuda); }, {"cuda:0"}));
}

TEST_CASE("configure_devices: refused once a device is in use") {
  backend(cpu(0));
  CHECK(throws<UsageError>([] { configure_devices({.cpu_count = 3}); }, {"in use"}));
}

// ---- what only a fresh process can show

TEST_CASE("device alone: the environment decides" * doctest::skip()) {
  CHECK(device_count(cpu) == 5);
  CHECK(all_devices(cpu).back() == cpu(4));
}
TEST_CASE("device: TANDEM_CPU_DEVICES decides how many CPU devices there are") {
  CHECK(passes_alone("device alone: the environment decides", "TANDEM_CPU_DEVICES=5"));
}

TEST_CASE("device alone: a bad environment" * doctest::skip()) {
  CHECK(throws<UsageError>([] { device_count(cpu); }, {"TANDEM_CPU_DEVICES"}));
}
TEST_CASE("device: TANDEM_CPU_DEVICES that is no number from 1 to 64 is an error") {
  for (const char* value : {"0", "-2", "65", "many", "2x", "99999999999999999999"}) {
    CHECK(passes_alone("device alone: a bad environment", str("TANDEM_CPU_DEVICES=", value)));
  }
}

TEST_CASE("device alone: configured" * doctest::skip()) {
  CHECK(throws<UsageError>([] { configure_devices({.cpu_count = 0}); }, {"cpu_count"}));
  CHECK(throws<UsageError>([] { configure_devices({.cpu_count = 65}); }, {"cpu_count"}));
  configure_devices({.cpu_count = 3, .memory_limit = 1 << 20});
  CHECK(device_count(cpu) == 3);
  CHECK(throws<OutOfMemory>([] { Array::empty({1 << 20}, float32, cpu(1)); }, {"limit 1.0 MiB"}));
  CHECK(Array::empty({1000}, float32, cpu(1)).defined());
  CHECK(throws<UsageError>([] { configure_devices({}); }, {"in use"}));
}
TEST_CASE("configure_devices: count and memory limit hold, and beat the environment") {
  CHECK(passes_alone("device alone: configured", "TANDEM_CPU_DEVICES=7"));
}

TEST_CASE("device: after fork() the first call in the child throws") {
  backend(cpu(0));
  const std::string said = in_child(
      [] { return thrown_message<UsageError>([] { Array::empty({1}, float32, cpu(0)); }); });
  CHECK(contains(said, "fork()"));
  CHECK(Array::empty({1}, float32, cpu(0)).defined());  // the parent is as it was
}

TEST_CASE("device alone: forked" * doctest::skip()) {
  register_backend(DeviceKind::cuda, {});  // as programs that are linked with one do before main()
  CHECK(in_child([] {
          return str(Array::full({1}, 3, int64, cpu(0)).to_vector<std::int64_t>()[0]);
        }) == "3");
}
TEST_CASE("device: a child may use devices if its parent was only linked with a backend") {
  CHECK(passes_alone("device alone: forked"));
}

TEST_CASE("device: shutdown_devices returns cached memory, and devices keep working") {
  { const Array big = Array::empty({1 << 20}, float32, cpu(9)); }
  shutdown_devices();
  CHECK(memory::stats(cpu(9)).reserved == 0);
  CHECK(doubles(tensor_of({4}, {1}, float32, cpu(9))) == std::vector<double>{4});
}
