// Small models and steps that the tests of parallel/ share.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include <tandem/tandem.h>

#include "tests/support/check.h"

namespace tandem::test {

using parallel::DataParallel;
using parallel::DataParallelOptions;
using parallel::ReplicaError;

/// Three layers, eight inputs, four classes.
struct Mlp : nn::Layer {
  nn::Linear a{8, 16}, b{16, 16}, c{16, 4};
  Tensor forward(const Tensor& x) override { return c(relu(b(relu(a(x))))); }
  void visit(nn::Visitor& v) override { v("a", a), v("b", b), v("c", c); }
};

inline DataParallelOptions on(int devices, DataParallelOptions options = {}) {
  options.devices = devs(devices);
  return options;
}

/// Values that depend on the seed only, whatever was drawn before.
inline Tensor values(const Shape& shape, std::uint64_t seed, Device device = dev(0)) {
  return random_tensor(shape, seed, float32, device);
}

inline Tensor labels(std::int64_t n, std::int64_t classes) {
  std::vector<std::int64_t> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back((i * 7) % classes);
  return from_vector(v);
}

template <class M>
std::vector<Tensor> grads(M& m) {
  std::vector<Tensor> list;
  for (Tensor& p : m.parameters()) list.push_back(p.grad());
  return list;
}

inline Verdict all_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                         Tolerance tolerance = {2e-5, 2e-6}) {
  if (a.size() != b.size()) return {false, "different numbers of tensors"};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Verdict v = close(a[i], b[i], tolerance);
    if (!v.ok) return {false, "tensor " + std::to_string(i) + ": " + v.why};
  }
  return {};
}

inline Verdict all_bits_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return {false, "different numbers of tensors"};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Verdict v = bits_equal(a[i], b[i]);
    if (!v.ok) return {false, "tensor " + std::to_string(i) + ": " + v.why};
  }
  return {};
}

/// Plain gradient descent by hand; gradients are undefined afterwards.
inline void sgd(std::vector<Tensor> parameters, double rate) {
  const NoGrad no_grad;
  for (Tensor& p : parameters) {
    if (p.grad().defined()) p.sub_(p.grad(), rate);
    p.zero_grad();
  }
}

/// A handful of bytes on each device: what is allocated now.
inline std::vector<std::int64_t> bytes_in_use(int devices) {
  std::vector<std::int64_t> list;
  for (Device d : devs(devices)) list.push_back(memory::stats(d).allocated);
  return list;
}

/// Trains `one` and its twin in `net` side by side, with the gradients of the input as well: after
/// every step nothing may differ.
template <class M>
void check_equal_steps(M& one, DataParallel<M>& net, const Shape& shape, std::int64_t classes,
                       int steps) {
  M& many = net.module();
  for (int step = 0; step < steps; ++step) {
    Tensor x1 = values(shape, 10 + std::uint64_t(step)), x2 = x1.detach();
    x1.requires_grad_(), x2.requires_grad_();
    const Tensor y = labels(shape[0], classes);
    const Tensor l1 = nn::cross_entropy(one(x1), y), l2 = nn::cross_entropy(net(x2), y);
    l1.backward(), l2.backward();
    CHECK(close(l2, l1));
    CHECK(all_close(grads(many), grads(one)));
    CHECK(close(x2.grad(), x1.grad()));
    sgd(one.parameters(), 0.1), sgd(many.parameters(), 0.1);
  }
}

}  // namespace tandem::test
