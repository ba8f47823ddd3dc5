// Optimizer steps on a GPU: many tensors in few launches, with the bits of the CPU, whose own tests
// compare with the formulas and with PyTorch.
#include <doctest/doctest.h>

#include "tests/cuda/arrays.h"

using namespace tandem;
using namespace tandem::test;

namespace {

using Coefficients = std::array<double, kUpdateCoefficients>;

struct Variant {
  const char* name;
  UpdateOp op;
  int states;
  Coefficients c;
};

Coefficients sgd(double momentum, double weight_decay, bool nesterov, bool maximize, bool first) {
  Coefficients c{};
  c[SgdRule::lr] = 0.1;
  c[SgdRule::momentum] = momentum;
  c[SgdRule::dampening] = nesterov ? 0 : 0.2;
  c[SgdRule::weight_decay] = weight_decay;
  c[SgdRule::nesterov] = nesterov;
  c[SgdRule::maximize] = maximize;
  c[SgdRule::first] = first;
  return c;
}

Coefficients adam(double weight_decay, double decay, bool amsgrad, bool maximize) {
  Coefficients c{};
  c[AdamRule::minus_step] = -0.01 / (1 - 0.9 * 0.9);
  c[AdamRule::beta1] = 0.9;
  c[AdamRule::beta2] = 0.999;
  c[AdamRule::sqrt_correction2] = std::sqrt(1 - 0.999 * 0.999);
  c[AdamRule::eps] = 1e-8;
  c[AdamRule::weight_decay] = weight_decay;
  c[AdamRule::decay] = decay;
  c[AdamRule::amsgrad] = amsgrad;
  c[AdamRule::maximize] = maximize;
  return c;
}

const Variant kVariants[] = {
    {"sgd", update_op<SgdRule>, 0, sgd(0, 0, false, false, false)},
    {"sgd, decay, maximize", update_op<SgdRule>, 0, sgd(0, 0.01, false, true, false)},
    {"momentum", update_op<SgdRule>, 1, sgd(0.9, 0, false, false, false)},
    {"momentum, the first step", update_op<SgdRule>, 1, sgd(0.9, 0.01, false, false, true)},
    {"nesterov", update_op<SgdRule>, 1, sgd(0.9, 0.01, true, false, false)},
    {"adam", update_op<AdamRule>, 2, adam(0, 1, false, false)},
    {"adam, decay, maximize", update_op<AdamRule>, 2, adam(0.01, 1, false, true)},
    {"adamw, amsgrad", update_op<AdamRule>, 3, adam(0, 0.999, true, false)},
};

UpdateItem item_of(const Variant& variant, std::int64_t n, DType dtype, Lie lie,
                   std::uint64_t seed) {
  const auto array = [&](double low) {
    return lying(lie, random_doubles(n, ++seed, low), {n}, dtype);
  };
  UpdateItem item{.param = array(-1), .grad = array(-1), .state = {}, .c = variant.c};
  for (int k = 0; k < variant.states; ++k) {
    item.state[std::size_t(k)] = array(k == 0 ? -1 : 0.01);
  }
  return item;
}

UpdateItem on_gpu(const UpdateItem& item) {
  UpdateItem there{test::on_gpu(item.param), test::on_gpu(item.grad), {}, item.c};
  for (std::size_t k = 0; k < 3; ++k) there.state[k] = test::on_gpu(item.state[k]);
  return there;
}

// Runs the items on both backends, and compares everything that a step writes.
void check_items(UpdateOp op, std::vector<UpdateItem> items) {
  std::vector<UpdateItem> there;
  for (const UpdateItem& item : items) there.push_back(on_gpu(item));
  cuda_backend().update(op, there);
  cpu_backend().update(op, items);
  for (std::size_t i = 0; i < items.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(there[i].param, items[i].param));
    CHECK(same_bits(there[i].grad, items[i].grad));
    for (std::size_t k = 0; k < 3; ++k) {
      if (items[i].state[k].defined()) CHECK(same_bits(there[i].state[k], items[i].state[k]));
    }
  }
}

}  // namespace

TEST_CASE("update: every rule and type gives the CPU's bits") {
  for (const Variant& variant : kVariants) {
    for (DType dtype : kGpuFloats) {
      for (Lie lie : {Lie::row_major, Lie::shifted}) {
        CAPTURE(variant.name);
        CAPTURE(dtype);
        CAPTURE(int(lie));
        check_items(variant.op, {item_of(variant, 37, dtype, lie, 1)});
      }
    }
  }
  CHECK(cudasim::violations().empty());
}

TEST_CASE("update: many tensors of mixed sizes, types and coefficients, in two launches") {
  const std::int64_t sizes[] = {1, 0, 3, 4, 5, 4095, 4096, 4097, 257, 0, 8200};
  std::vector<UpdateItem> items;
  for (std::size_t i = 0; i < 44; ++i) {
    const bool small = i >= std::size(sizes);  // the simulator's time is not free
    const std::int64_t n = small ? std::int64_t(i % 7) : sizes[i];
    const DType dtype = i % 5 == 3 ? float16 : float32;
    items.push_back(item_of(kVariants[5 + i % 2], n, dtype, Lie::row_major, i));
    items.back().c[AdamRule::beta1] = 0.5 + 0.01 * double(i);
  }
  const auto before = cudasim::statistics().kernels_launched;
  check_items(update_op<AdamRule>, items);
  CHECK(cudasim::statistics().kernels_launched == before + 2);
}

TEST_CASE("update: the first step of momentum does not read a buffer that nobody has written") {
  UpdateItem item = on_gpu(item_of(kVariants[3], 9, float32, Lie::row_major, 1));
  item.state[0] = Array::empty({9}, float32, cuda(0));
  UpdateItem expected = item_of(kVariants[3], 9, float32, Lie::row_major, 1);
  cuda_backend().update(kVariants[3].op, {&item, 1});
  cpu_backend().update(kVariants[3].op, {&expected, 1});
  CHECK(same_bits(item.param, expected.param));
  CHECK(same_bits(item.state[0], expected.state[0]));
  CHECK(cudasim::violations().empty());
}

TEST_CASE("update: a float32 parameter may have a gradient of 16 bits") {
  const Variant& variant = kVariants[2];
  UpdateItem item = item_of(variant, 9, float32, Lie::row_major, 1);
  item.grad = lying(Lie::row_major, random_doubles(9, 5), {9}, bfloat16);
  check_items(variant.op, {item});
}

TEST_CASE("update: float64 is refused by name, with the way out") {
  UpdateItem item{Array::empty({3}, float64, cuda(0)), Array::empty({3}, float64, cuda(0)), {}, {}};
  CHECK(throws<UsageError>(
      [&] {
        cuda_backend().update(update_op<SgdRule>, {&item, 1});
      },
      {"float64 is not computed on cuda:0", "to(float32)"}));
}
