// See op_checks.h. One run() does everything: litter, inputs, forward, backward; the checks compare
// what it gives.
#include "tests/support/op_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include <tandem/core/autograd.h>
#include <tandem/core/trace.h>

namespace tandem::test {

const char* name(Layout layout) {
  const char* names[] = {"row-major", "transposed", "rotated", "gaps", "expanded", "offset"};
  return names[int(layout)];
}

namespace {

// What lies around the elements of an array with gaps: read it and the result shows it.
double trap(DType dtype) {
  return is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN() : 99;
}

Array permuted_base(const Dense& x, const std::vector<int>& order, DType dtype, Device device) {
  const Dense base = permuted(x, order);
  std::vector<int> back(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) back[std::size_t(order[d])] = int(d);
  return array_of(base.values, base.shape, dtype, device).permute(back);
}

Array with_gaps(const Dense& x, DType dtype, Device device) {
  Shape larger;
  for (std::int64_t size : x.shape) larger.push_back(2 * size + 1);
  const Dense base = dense(larger, [&](Index i) {
    for (std::int64_t& position : i) {
      if (position % 2 == 0) return trap(dtype);
      position /= 2;
    }
    return x.at(i);
  });
  Array a = array_of(base.values, base.shape, dtype, device);
  for (int d = 0; d < larger.dim(); ++d) a = a.slice(d, 1, larger[d], 2);
  return a;
}

Array stretched(Dense& x, DType dtype, Device device) {
  for (int d = 0; d < x.shape.dim(); ++d) {
    if (x.shape[d] < 2) continue;
    const Dense base = sliced(x, d, 0, 1);
    x = dense(x.shape, [&](const Index& i) { return base.at_broadcast(i); });
    return array_of(base.values, base.shape, dtype, device).expand(x.shape);
  }
  return array_of(x.values, x.shape, dtype, device);
}

Array behind_others(const Dense& x, DType dtype, Device device) {
  std::vector<double> values(3, trap(dtype));
  values.insert(values.end(), x.values.begin(), x.values.end());
  const Array base = array_of(values, {std::int64_t(values.size())}, dtype, device);
  return base.narrow(0, 3, x.shape.numel()).view_or_undefined(x.shape);
}

}  // namespace

Array in_layout(Layout layout, Dense& x, DType dtype, Device device) {
  std::vector<int> order(std::size_t(x.shape.dim()), 0);
  std::iota(order.begin(), order.end(), 0);
  switch (layout) {
    case Layout::transposed:
      return permuted_base(x, {order.rbegin(), order.rend()}, dtype, device);
    case Layout::rotated:
      if (order.size() > 1) {
        order.erase(order.begin() + 1);
        order.push_back(1);
      }
      return permuted_base(x, order, dtype, device);
    case Layout::gaps:
      return with_gaps(x, dtype, device);
    case Layout::expanded:
      return stretched(x, dtype, device);
    case Layout::offset:
      return behind_others(x, dtype, device);
    default:
      return array_of(x.values, x.shape, dtype, device);
  }
}

std::vector<Device> devices_to_compare() {
  std::vector<Device> devices{dev(0), dev(3)};
  if (dev(0).kind != DeviceKind::cpu) devices.push_back(cpu(0));
  return devices;
}

namespace {

struct Setup {
  DType float_type = float32;
  Device device = dev(0);
  int layout = 0;      // of input 0; each further input takes the next one
  bool mixed = false;  // else all inputs have the layout of input 0
  unsigned char litter = 0xff;
  bool gradient = true;
  Layout seeds = Layout::row_major;  // of what backward starts with
};

constexpr int kLayouts = 6;

struct Inputs {
  std::vector<Dense> dense;
  std::vector<Tensor> tensors;
};

Inputs make_inputs(const OpRow& row, const Shapes& shapes, const Setup& setup) {
  Inputs in;
  for (std::size_t i = 0; i < row.inputs.size(); ++i) {
    const Domain& domain = row.inputs[i];
    const DType dtype = domain.dtype == float32 ? setup.float_type : domain.dtype;
    const auto layout = Layout((setup.layout + (setup.mixed ? int(i) : 0)) % kLayouts);
    in.dense.push_back(op_input(domain, shapes[i], setup.float_type, i));
    const Array a = in_layout(layout, in.dense.back(), dtype, setup.device);
    REQUIRE(close(doubles(a), in.dense.back().values, {0, 0}));  // the views themselves
    in.tensors.push_back(Tensor(a));
    if (row.gradient && setup.gradient && is_floating(dtype)) in.tensors.back().requires_grad_();
  }
  return in;
}

// The weight of each output element in the loss whose gradient is checked: rounded to the type the
// check runs in.
std::vector<Dense> make_weights(const std::vector<Dense>& outputs, DType float_type) {
  std::vector<Dense> weights;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    weights.push_back(op_input({-1, 1}, outputs[k].shape, float_type, 100 + k));
  }
  return weights;
}

struct Run {
  Inputs in;
  std::vector<Dense> expected, weights;
  std::vector<Tensor> outputs;
  std::vector<Tensor> gradients;  // of the inputs; undefined where there is none
};

Run run(const OpRow& row, const Shapes& shapes, const Setup& setup) {
  Run r;
  r.in = make_inputs(row, shapes, setup);
  r.expected = row.reference(r.in.dense);
  r.weights = make_weights(r.expected, setup.float_type);
  litter_pool(setup.device, setup.litter);
  r.outputs = row.op(r.in.tensors);
  REQUIRE(r.outputs.size() == r.expected.size());
  for (std::size_t k = 0; k < r.outputs.size(); ++k) {
    REQUIRE(r.outputs[k].defined());
    CHECK(r.outputs[k].shape() == r.expected[k].shape);
    CHECK(r.outputs[k].dtype() == row.result.value_or(setup.float_type));
    CHECK(r.outputs[k].device() == setup.device);
    CHECK(r.outputs[k].requires_grad() == (row.gradient && setup.gradient));
  }
  if (row.gradient && setup.gradient) {
    std::vector<Tensor> seeds;
    for (std::size_t k = 0; k < r.outputs.size(); ++k) {
      seeds.push_back(
          Tensor(in_layout(setup.seeds, r.weights[k], r.outputs[k].dtype(), setup.device)));
    }
    backward(r.outputs, seeds);
    for (const Tensor& x : r.in.tensors) r.gradients.push_back(x.grad());
  }
  return r;
}

// d/dx_j sum_k weight_k reference(x)_k by central differences: the error of the third derivative,
// h^2 f''' / 6, and that of rounding, 1e-16 / h, are both near 1e-10.
std::vector<double> finite_differences(const OpRow& row, const Run& r, std::size_t input) {
  constexpr double h = 1e-5;
  std::vector<Dense> x = r.in.dense;
  const auto loss = [&] {
    const std::vector<Dense> y = row.reference(x);
    double sum = 0;
    for (std::size_t k = 0; k < y.size(); ++k) {
      for (std::size_t i = 0; i < y[k].values.size(); ++i) {
        sum += r.weights[k].values[i] * y[k].values[i];
      }
    }
    return sum;
  };
  std::vector<double> gradient;
  for (double& v : x[input].values) {
    const double before = v;
    v = before + h;
    const double above = loss();
    v = before - h;
    gradient.push_back((above - loss()) / (2 * h));
    v = before;
  }
  return gradient;
}

void compare_gradients(const OpRow& row, const Run& r, Tolerance tolerance) {
  for (std::size_t i = 0; i < r.in.tensors.size(); ++i) {
    if (!r.in.tensors[i].requires_grad()) continue;
    CAPTURE(i);
    REQUIRE(r.gradients[i].defined());
    CHECK(r.gradients[i].shape() == r.in.tensors[i].shape());
    CHECK(r.gradients[i].dtype() == r.in.tensors[i].dtype());
    CHECK(r.gradients[i].device() == r.in.tensors[i].device());
    CHECK(close(r.gradients[i], finite_differences(row, r, i), tolerance));
  }
}

bool small(const Shapes& shapes) {
  std::int64_t n = 0;
  for (const Shape& shape : shapes) n += shape.numel();
  return n <= 150;
}

std::string text(const Shapes& shapes) {
  std::string all;
  for (const Shape& shape : shapes) all += str(shape, " ");
  return all;
}

Dense rounded(Dense x, DType dtype) {
  for (double& v : x.values) v = stored_as(dtype, v);
  return x;
}

void compare_values(const Run& r, Tolerance tolerance) {
  for (std::size_t k = 0; k < r.outputs.size(); ++k) {
    CAPTURE(k);
    CHECK(close(r.outputs[k], r.expected[k].values, tolerance));
  }
}

// ---- the checks

void check_value(const OpRow& row) {
  for (const Shapes& shapes : row.shapes) {
    INFO(text(shapes));
    compare_values(run(row, shapes, {.gradient = false}), row.tolerance);
    // float64: a few units in the last place of exp, log, tanh and of sums
    if (!row.half || row.result == float32 || !has_float64()) continue;
    compare_values(run(row, shapes, {.float_type = float64, .gradient = false}), {1e-13, 1e-13});
  }
}

void check_gradient(const OpRow& row) {
  for (const Shapes& shapes : row.shapes) {
    if (!small(shapes)) continue;
    INFO(text(shapes));
    if (has_float64()) {
      compare_gradients(row, run(row, shapes, {.float_type = float64}), {1e-7, 1e-8});
    }
    compare_gradients(row, run(row, shapes, {}), {1e-5, 1e-5});  // sums of float32 products
  }
}

void check_devices(const OpRow& row) {
  for (const Shapes& shapes : row.shapes) {
    INFO(text(shapes));
    const Run first = run(row, shapes, {});
    for (Device device : devices_to_compare()) {
      INFO(device.str());
      const DeviceScope scope(device);
      const trace::Copies before = trace::all_copies();
      const Run other = run(row, shapes, {.device = device});
      const bool same_kind = device.kind == dev(0).kind;
      if (!row.moves) CHECK((trace::all_copies() - before).in_count == 0);
      const auto agree = [&](const Tensor& a, const Tensor& b) {
        return same_kind ? bits_equal(a, b) : close(a, b, {1e-5, 1e-5});
      };
      for (std::size_t k = 0; k < first.outputs.size(); ++k) {
        CHECK(agree(other.outputs[k], first.outputs[k]));
      }
      for (std::size_t i = 0; i < first.gradients.size(); ++i) {
        CHECK(agree(other.gradients[i], first.gradients[i]));
      }
    }
  }
}

void check_layouts(const OpRow& row) {
  for (const Shapes& shapes : row.shapes) {
    if (!small(shapes)) continue;
    INFO(text(shapes));
    for (int layout = 0; layout < kLayouts; ++layout) {
      for (const bool mixed : {false, true}) {
        if (mixed && shapes.size() == 1) continue;
        INFO(std::string(name(Layout(layout))), " ", mixed);
        const Run r = run(row, shapes, {.layout = layout, .mixed = mixed});
        compare_values(r, row.tolerance);
        // Stretching makes elements equal, where max has no derivative.
        const bool ties = Layout(layout) == Layout::expanded && row.inputs[0].distinct;
        if (ties) continue;
        compare_gradients(row, r, {1e-5, 1e-5});
        // A gradient need not lie as what it is the gradient of.
        const Setup other{.layout = layout, .mixed = mixed, .seeds = Layout::rotated};
        compare_gradients(row, run(row, shapes, other), {1e-5, 1e-5});
      }
    }
  }
}

void check_empty(const OpRow& row) {
  for (const Shapes& shapes : row.empty) {
    INFO(text(shapes));
    const Run r = run(row, shapes, {});
    compare_values(r, row.tolerance);
    compare_gradients(row, r, {1e-5, 1e-5});
  }
}

// Arithmetic is float32, so one rounding to 16 bits remains: half a unit in the last place. A
// gradient is a sum of products, each of values that were rounded when they were saved.
void check_halves(const OpRow& row) {
  for (const DType half : {float16, bfloat16}) {
    const double unit = half == float16 ? 0x1p-11 : 0x1p-8;
    for (const Shapes& shapes : row.shapes) {
      INFO(std::string(name(half)), " ", text(shapes));
      const Run r = run(row, shapes, {.float_type = half, .gradient = small(shapes)});
      compare_values(r, {1.01 * unit * row.half_roundings,
                         row.tolerance.absolute + (row.half_roundings - 1) * 4 * unit});
      if (r.gradients.empty()) continue;
      compare_gradients(row, r, {8 * unit, 16 * unit});
    }
  }
}

void check_memory(const OpRow& row) {
  for (const Shapes& shapes : row.shapes) {
    INFO(text(shapes));
    const Run nan = run(row, shapes, {.litter = 0xff}), other = run(row, shapes, {.litter = 0x3c});
    for (std::size_t k = 0; k < nan.outputs.size(); ++k) {
      CHECK(bits_equal(nan.outputs[k], other.outputs[k]));
    }
    for (std::size_t i = 0; i < nan.gradients.size(); ++i) {
      CHECK(bits_equal(nan.gradients[i], other.gradients[i]));
    }
  }
}

void check_inputs_kept(const OpRow& row) {
  const Shapes& shapes = row.shapes[0];
  const Run r = run(row, shapes, {});
  for (std::size_t i = 0; i < r.in.tensors.size(); ++i) {
    CHECK(close(r.in.tensors[i], r.in.dense[i].values, {0, 0}));
    CHECK(r.in.tensors[i].version() == make_inputs(row, shapes, {}).tensors[i].version());
  }
  const NoGrad off;
  for (const Tensor& y : row.op(r.in.tensors)) {
    // Ops with nothing to do give the tensor itself.
    const bool itself = std::any_of(r.in.tensors.begin(), r.in.tensors.end(),
                                    [&](const Tensor& x) { return x.is_same(y); });
    CHECK((itself || !y.requires_grad()));
  }
}

// All values (and pairs of them) that tend to go wrong, as float32 holds them.
void check_special(const OpRow& row) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> odd{nan, inf,  -inf,  0.0,   -0.0,   1,   -1,   0.5, -0.5,
                                2,   3e38, -3e38, 1e-37, -1e-37, 100, -100, 3};
  const auto n = std::int64_t(odd.size());
  Dense a{{n, 1}, odd}, b{{1, n}, odd};
  std::vector<Dense> x{rounded(a, float32), rounded(b, float32)};
  std::vector<Tensor> tensors{tensor_of(odd, a.shape), tensor_of(odd, b.shape)};
  x.resize(row.inputs.size());
  tensors.resize(row.inputs.size());
  const Dense expected = rounded(row.reference(x)[0], row.result.value_or(float32));
  CHECK(close(row.op(tensors)[0], expected.values, row.tolerance));
}

struct Check {
  const char* fact;
  void (*run)(const OpRow&);
  bool (*applies)(const OpRow&);
};

const Check kChecks[] = {
    {"value equals the float64 reference", check_value, [](const OpRow&) { return true; }},
    {"gradient equals finite differences", check_gradient,
     [](const OpRow& row) { return row.gradient; }},
    {"every device gives the same", check_devices, [](const OpRow&) { return true; }},
    {"any layout gives the same", check_layouts, [](const OpRow& row) { return row.layouts; }},
    {"empty input gives what the reference gives", check_empty,
     [](const OpRow& row) { return !row.empty.empty(); }},
    {"float16 and bfloat16 round once", check_halves, [](const OpRow& row) { return row.half; }},
    {"what memory held before does not matter", check_memory, [](const OpRow&) { return true; }},
    {"inputs stay as they are", check_inputs_kept, [](const OpRow&) { return true; }},
    {"NaN and infinities are as in float64", check_special,
     [](const OpRow& row) { return row.special; }},
};

std::map<std::string, std::function<void()>>& cases() {
  static std::map<std::string, std::function<void()>> all;
  return all;
}

void run_current_case() {
  cases().at(doctest::getContextOptions()->currentTest->m_name)();
}

void register_row(const OpRow& row) {
  static std::deque<std::string> names;  // doctest keeps pointers
  for (const Check& c : kChecks) {
    if (!c.applies(row)) continue;
    names.push_back(str("op ", row.name, ": ", c.fact));
    cases()[names.back()] = [&row, &c] { c.run(row); };
    doctest::detail::regTest(doctest::detail::TestCase(run_current_case, __FILE__, __LINE__,
                                                       doctest::detail::TestSuite()) *
                             names.back().c_str());
  }
}

}  // namespace

RegisterOpCases::RegisterOpCases(const std::vector<OpRow>& (*table)()) {
  before_tests().push_back([table] {
    for (const OpRow& row : table()) register_row(row);
  });
}

int op_case_count() {
  return int(cases().size());
}

}  // namespace tandem::test
