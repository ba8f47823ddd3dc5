// Whole steps: rows 2.6 (D1 ...) of PyTorch's own tests.
#include "tests/parallel/models.h"

namespace tandem::test {

TEST_CASE("D1 step: either order of devices gives one device's output and gradients") {
  for (const auto& devices : {std::vector<Device>{dev(0), dev(1)}, {dev(1), dev(0)}}) {
    nn::Linear one(10, 5);
    nn::Linear many = nn::clone(one);
    many.to(devices[0]);
    const Tensor x = values({20, 10}, 1, dev(1));
    one.to(dev(1));
    sum(one(x)).backward();
    DataParallel net(many, {.devices = devices});
    const Tensor y = net(x);
    CHECK(y.device() == devices[0]);
    CHECK(close(y, one(x)));
    sum(y).backward();
    CHECK(all_close(grads(many), grads(one)));
    for (const Tensor& g : grads(many)) CHECK(g.device() == devices[0]);
  }
}

namespace {
struct Product : nn::Module {
  Tensor forward(const Tensor& v1, const Tensor& v2, double f) { return f * (v1 * v2); }
  void visit(nn::Visitor&) override {}
};
struct ProductSum : nn::Module {
  Tensor forward(const Tensor& v1, const Tensor& v2, double f, const Tensor& v3) {
    return f * (v1 * v2) + v3;
  }
  void visit(nn::Visitor&) override {}
};
}  // namespace

TEST_CASE("D3 step: tensors, a number and an optional tensor, on one or two devices") {
  for (const auto& devices : {std::vector<Device>{dev(0), dev(1)}, {dev(1), dev(0)}, {dev(0)}}) {
    for (bool third : {false, true}) {
      const auto input = [](std::uint64_t seed, bool grad) {
        Tensor t = values({5, 5}, seed, dev(7));
        t.requires_grad_(grad);
        return t;
      };
      Tensor a1 = input(1, true), a2 = input(2, true), b1 = input(1, true), b2 = input(2, true);
      const Tensor v3 = input(3, false);
      Tensor expected, module_form, function_form;
      if (third) {
        ProductSum m;
        expected = m.forward(a1, a2, 2.5, v3);
        DataParallel net(m, {.devices = devices});
        module_form = net(b1, b2, 2.5, v3);
        function_form = parallel::data_parallel(m, devices, b1, b2, 2.5, v3);
      } else {
        Product m;
        expected = m.forward(a1, a2, 2.5);
        DataParallel net(m, {.devices = devices});
        module_form = net(b1, b2, 2.5);
        function_form = parallel::data_parallel(m, devices, b1, b2, 2.5);
      }
      CHECK(module_form.device() == devices[0]);
      CHECK(close(module_form, expected));
      CHECK(close(function_form, expected));
      sum(expected).backward();
      sum(module_form).backward();
      CHECK(close(b1.grad(), a1.grad()));
      CHECK(close(b2.grad(), a2.grad()));
      CHECK(b1.grad().device() == dev(7));
    }
  }
}

TEST_CASE("D4 step: forward only") {
  nn::Linear m(10, 5);
  DataParallel net(m, on(2));
  const Tensor x = values({20, 10}, 1);
  CHECK(close(net(x), m(x)));
}

namespace {
nn::Sequential two_layers() {
  return nn::Sequential{nn::Linear(2, 2), nn::Linear(2, 2)};
}
nn::Linear& layer(nn::Sequential& s, std::size_t i) {
  return *s[i].get_if<nn::Linear>();
}

template <class M>
Verdict refused(M& m, const std::vector<Device>& devices) {
  const std::string first = devices[0].str();
  const Tensor x = values({2, 2}, 1, devices[0]);
  DataParallel net(m, {.devices = devices});  // construction is fine
  const Verdict module_form = throws<UsageError>([&] { net(x); }, {first.c_str(), "weight", "to("});
  if (!module_form.ok) return module_form;
  return throws<UsageError>([&] { parallel::data_parallel(m, x, devices); }, {first.c_str()});
}
}  // namespace

TEST_CASE("D5 step: a module that is not on the first device is refused, naming tensor and fix") {
  {
    nn::Linear m(2, 2);
    m.to(dev(7));
    CHECK(refused(m, {dev(0), dev(1)}));
  }
  {
    nn::Linear m(2, 2);
    m.to(dev(1));
    CHECK(refused(m, {dev(0), dev(1)}));
  }
  {
    nn::Linear m(2, 2);
    CHECK(refused(m, {dev(1), dev(0)}));
  }
  {
    nn::Sequential m = two_layers();  // mixed: the second layer elsewhere
    layer(m, 1).to(dev(7));
    CHECK(refused(m, {dev(0), dev(1)}));
  }
  {
    nn::Sequential m = two_layers();
    layer(m, 1).to(dev(1));
    CHECK(refused(m, {dev(0), dev(1)}));
  }
  {
    nn::Sequential m = two_layers();
    CHECK(refused(m, {dev(1), dev(0)}));
  }
}

TEST_CASE("D6 step: the good placements work, also when the wrapper moves the module") {
  const Tensor x = values({2, 2}, 1);
  {
    nn::Linear m(2, 2);
    DataParallel net(m);  // all devices
    CHECK_NOTHROW(net(x));
    CHECK(net.devices() == all_devices(dev(0).kind));
  }
  {
    nn::Linear m(2, 2);
    m.to(dev(7));
    DataParallel net(m, on(2));
    net.to(dev(0));
    CHECK_NOTHROW(net(x));
  }
  {
    nn::Linear m(2, 2);
    m.to(dev(1));
    DataParallel net(m, {.devices = {dev(1), dev(0)}});
    CHECK_NOTHROW(net(x));
  }
  {
    nn::Sequential m = two_layers();
    m.to(dev(7));
    DataParallel net(m, {.devices = {dev(1), dev(0)}});
    net.to(dev(1));
    CHECK_NOTHROW(net(x));
  }
  {
    nn::Sequential m = two_layers();
    DataParallel net(m, on(2));
    CHECK_NOTHROW(net(x));
    net.to(dev(1));  // now the first device is wrong
    CHECK_THROWS_AS(net(x), UsageError);
  }
}

namespace {
struct NoInputs : nn::Module {
  Tensor t = eye(2, 3);
  Tensor forward() { return t + (1.0 - t); }
  void visit(nn::Visitor& v) override { v("t", t); }
};
}  // namespace

TEST_CASE("D7 step: a module without inputs runs once, on the first device") {
  for (int n : {1, 2}) {
    NoInputs m;
    DataParallel net(m, on(n));
    const Tensor y = net();
    CHECK(y.device() == dev(0));
    CHECK(y.shape() == Shape{2, 3});
    CHECK(close(y, {1, 1, 1, 1, 1, 1}));
  }
}

TEST_CASE("D8 step: a second derivative is a clear error, and the first is right") {
  nn::Linear m(4, 1);
  DataParallel net(m, on(2));
  Tensor x = ones({2, 4});
  x.requires_grad_();
  const Tensor y = net(x);
  const Tensor total = sum(y);
  CHECK(throws<UsageError>(
      [&] {
        grad({&total, 1}, {&x, 1}, {}, {.retain_graph = true, .create_graph = true});
      },
      {"create_graph", "once only"}));
  const auto dx = grad({&total, 1}, {&x, 1});
  CHECK(close(dx[0].narrow(0, 0, 1).flatten(), m.weight.flatten()));
}

TEST_CASE("D12 step: float32 and float64 on all devices") {
  for (DType dtype : {float32, float64}) {
    if (dtype == float64 && !has_float64()) continue;
    nn::Linear m(10, 5);
    m.to(dtype);
    DataParallel net(m);
    const Tensor x = random_tensor({20, 10}, 1, dtype);
    const Tensor y = net(x);
    CHECK(y.dtype() == dtype);
    CHECK(y.device() == dev(0));
    CHECK(close(y, m(x), dtype == float32 ? Tolerance{1e-5, 1e-6} : Tolerance{1e-12, 1e-12}));
  }
}

TEST_CASE("D14 step: devices as values and devices parsed from text are the same") {
  nn::Linear m(10, 5);
  const Tensor x = values({20, 10}, 1);
  DataParallel as_values(m, {.devices = {dev(0), dev(1)}, .output_device = dev(1)});
  const std::string first = dev_name(0), second = dev_name(1);
  DataParallel as_text(m, {.devices = parse_devices(str(first, ",", second)),
                           .output_device = Device::parse(second)});
  CHECK(bits_equal(as_values(x), as_text(x)));
  CHECK(close(as_text(x), m(x)));
  CHECK(as_text(x).device() == dev(1));
}

TEST_CASE("D18 step: a batch smaller than the devices uses as many as it has rows") {
  nn::Linear m(3, 2);
  DataParallel net(m, on(4));
  const Tensor x = values({2, 3}, 1);
  CHECK(close(net(x), m(x)));
  CHECK(net.scattered(x).size() == 2);
  sum(net(x)).backward();
  CHECK(close(m.bias.grad(), {2, 2}));
}

}  // namespace tandem::test
