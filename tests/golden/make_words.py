#!/usr/bin/env python3
"""Golden numbers of PyTorch's losses with all their options, of embeddings, gathers and attention: writes
tests/nn/golden_words.h.

Inputs follow a rule that both sides know, pattern(); seeds of non-scalar results too.
Run with PyTorch 1.13 on the CPU (Debian 12: python3-torch), one thread:
    /usr/bin/python3 tests/golden/make_words.py > tests/nn/golden_words.h
"""
import torch
import torch.nn.functional as F

torch.set_num_threads(1)


def pattern(shape, k):
    """((i k) mod 101 - 50) / 25 for the i-th element: from -2 to 2."""
    n = 1
    for size in shape:
        n *= size
    return torch.tensor([((i * k) % 101 - 50) / 25 for i in range(n)]).reshape(shape)


def numbers(t):
    return "{%s}" % ", ".join("%.9g" % v for v in t.detach().flatten().tolist())


def show(name, t):
    print("inline const std::vector<double> %s%s;" % (name, numbers(t)))


def seed_of(y):
    return pattern(y.shape, 29) if y.dim() else torch.tensor(1.0)


def leaf(shape, k):
    return pattern(shape, k).requires_grad_()


def losses(name, cases, make):
    """A table: for each case and reduction the loss and its gradients; make(reduction, options) -> loss, inputs."""
    print("inline const std::vector<LossGolden> %s = {" % name)
    for case, options in cases.items():
        for reduction in ("mean", "sum", "none"):
            y, inputs = make(reduction, options)
            grads = ", ".join(map(numbers, torch.autograd.grad(y, inputs, seed_of(y))))
            print('    {"%s", Reduction::%s, %s, {%s}},' % (case, reduction, numbers(y), grads))
    print("};")


def class_losses(name, f, shape, target, cases):
    def make(reduction, options):
        x = leaf(shape, 37)
        return f(x, target, reduction=reduction, **options), [x]
    losses(name, cases, make)


print("""// Golden numbers of PyTorch %s on one CPU thread.
// Written by tests/golden/make_words.py: do not edit.
#pragma once

#include <string>
#include <vector>

#include <tandem/nn/loss.h>

namespace tandem::test {

using nn::Reduction;

struct LossGolden {
  std::string name;
  Reduction reduction;
  std::vector<double> loss;
  std::vector<std::vector<double>> gradients;
};

// clang-format off
// ---- cross_entropy and nll_loss of pattern(shape, 37), shapes (5, 4), (2, 4, 3) and (4)""" % torch.__version__)
weight = torch.tensor([0.5, 2.0, 1.25, 0.25])
flat = torch.tensor([2, 0, 1, 3, 1])
every = torch.tensor([[1, 3, 2], [0, 1, 3]])
hard = {
    "plain": {},
    "weight": {"weight": weight},
    "ignore 3": {"ignore_index": 3},
    "weight, ignore 3": {"weight": weight, "ignore_index": 3},
}
soft = {
    "smoothing": {"label_smoothing": 0.1},
    "smoothing, ignore 3": {"label_smoothing": 0.1, "ignore_index": 3},
    "smoothing, weight, ignore 3": {"label_smoothing": 0.1, "weight": weight, "ignore_index": 3},
}
class_losses("kCrossEntropy", F.cross_entropy, (5, 4), flat, {**hard, **soft})
class_losses("kCrossEntropyMinus100", F.cross_entropy, (5, 4), torch.tensor([2, 0, -100, 3, -100]),
             {k: hard[k] for k in ("plain", "weight")})
class_losses("kCrossEntropyMany", F.cross_entropy, (2, 4, 3), every, {**hard, **soft})
class_losses("kCrossEntropyOne", F.cross_entropy, (4,), torch.tensor(2), {**hard, **soft})
class_losses("kNll", F.nll_loss, (5, 4), flat, hard)
class_losses("kNllMany", F.nll_loss, (2, 4, 3), every, hard)


def probabilities(shape):
    def make(reduction, options):
        x, q = leaf(shape, 37), (pattern(shape, 17) / 4 + 0.5).requires_grad_()
        return F.cross_entropy(x, q, reduction=reduction, **options), [x, q]
    return make


print("\n// ---- cross_entropy against the probabilities pattern(shape, 17) / 4 + 1/2")
parts = {"plain": {}, "weight": {"weight": weight}, "smoothing": {"label_smoothing": 0.1},
         "smoothing, weight": {"label_smoothing": 0.1, "weight": weight}}
losses("kSoftCrossEntropy", parts, probabilities((5, 4)))
losses("kSoftCrossEntropyMany", parts, probabilities((2, 4, 3)))
losses("kSoftCrossEntropyOne", parts, probabilities((4,)))


def binary(reduction, options):
    x, t = (30 * pattern((3, 4), 37)).requires_grad_(), (pattern((3, 4), 17) / 4 + 0.5).requires_grad_()
    return F.binary_cross_entropy_with_logits(x, t, reduction=reduction, **options), [x, t]


print("\n// ---- binary cross entropy: logits 30 pattern((3, 4), 37), targets pattern((3, 4), 17) / 4 + 1/2")
element_weight, positive = torch.tensor([0.5, 2.0, 0.0, 1.5]), torch.tensor([3.0, 0.25, 1.0, 2.0])
losses("kBinary", {"plain": {}, "weight": {"weight": element_weight}, "pos_weight": {"pos_weight": positive},
                   "weight, pos_weight": {"weight": element_weight, "pos_weight": positive}}, binary)


def distance(f):
    def make(reduction, options):
        x, t = leaf((3, 4), 37), leaf((3, 4), 17)
        return f(x, t, reduction=reduction), [x, t]
    return make


print("\n// ---- l1_loss and mse_loss of pattern((3, 4), 37) and pattern((3, 4), 17)")
losses("kL1", {"plain": {}}, distance(F.l1_loss))
losses("kMse", {"plain": {}}, distance(F.mse_loss))
print("// clang-format on\n\n}  // namespace tandem::test")
