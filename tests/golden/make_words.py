#!/usr/bin/env python3
"""Golden numbers of PyTorch's losses with all their options, of embeddings, gathers and attention: writes
tests/nn/golden_words.h.

Inputs follow a rule that both sides know, pattern(); seeds of non-scalar results too.
Run with PyTorch 1.13 on the CPU (Debian 12: python3-torch), one thread:
    /usr/bin/python3 tests/golden/make_words.py > tests/nn/golden_words.h
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from fingerprint import fnv1a

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

#include <cstdint>
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
print("\n// ---- index_select and gather of pattern((4, 3, 5), 37), and their gradients")
for name, f in (("kIndexSelect", lambda x: torch.index_select(x, 1, torch.tensor([2, 0, 2]))),
                ("kGather", lambda x: torch.gather(x, 1, (pattern((2, 4, 5), 13) + 3).long() % 3))):
    x = leaf((4, 3, 5), 37)
    y = f(x)
    show(name, y)
    show(name + "Grad", torch.autograd.grad(y, x, seed_of(y))[0])

print("\n// ---- Embedding(7, 5, padding_idx=2) under seed 3; the gradient for indices 2 0 6, 0 0 1")
torch.manual_seed(3)
table = nn.Embedding(7, 5, padding_idx=2)
show("kEmbeddingWeight", table.weight)
y = table(torch.tensor([[2, 0, 6], [0, 0, 1]]))
show("kEmbeddingGrad", torch.autograd.grad(y, table.weight, seed_of(y))[0])

print("\n// ---- MultiheadAttention(6, 2) under seed 5: bits of in_proj_weight and out_proj.weight")
torch.manual_seed(5)
attention = nn.MultiheadAttention(6, 2)
assert not attention.in_proj_bias.any() and not attention.out_proj.bias.any()
for name, t in (("kInProj", attention.in_proj_weight), ("kOutProj", attention.out_proj.weight)):
    print("inline constexpr std::uint64_t %sHash = 0x%016x;" % (name, fnv1a([t])))
print("""
// ---- the same with parameters pattern(shape, 23, 31, 11, 19) / 2 in the order of parameters(): output,
// gradients of the parameters, then of query, key, value: pattern((4, 3, 6), 37), pattern((5, 3, 6), 17),
// pattern((5, 3, 6), 41), or 37 for all three. Masks: see tests/nn/attention.cpp.
struct AttentionGolden {
  std::string name;
  std::vector<double> output;
  std::vector<std::vector<double>> gradients;
};
inline const std::vector<AttentionGolden> kAttention = {""")
with torch.no_grad():
    for p, k in zip(attention.parameters(), (23, 31, 11, 19)):
        p.copy_(pattern(p.shape, k) / 2)
causal = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
padding = torch.tensor([[False, False, True, False, True], [False] * 5, [True, False, False, False, False]])
for case in ("self", "self causal", "cross", "cross padding", "cross mask", "cross mask of each head", "one sample"):
    q = leaf((4, 3, 6), 37)
    k, v = leaf((5, 3, 6), 17), leaf((5, 3, 6), 41)
    masks = {}
    if case == "self causal":
        masks["attn_mask"] = causal
    if case == "cross padding":
        masks["key_padding_mask"] = padding
    if case == "cross mask":
        masks["attn_mask"] = pattern((4, 5), 7)
    if case == "cross mask of each head":
        masks["attn_mask"] = pattern((6, 4, 5), 7) > 1.2
    inputs = [q] if case.startswith("self") else [q, k, v]
    if case == "one sample":
        inputs = [leaf((4, 6), 37), leaf((5, 6), 17), leaf((5, 6), 41)]
    y, _ = attention(*(inputs * 3 if len(inputs) == 1 else inputs), **masks)
    grads = torch.autograd.grad(y, [*attention.parameters(), *inputs], seed_of(y))
    print('    {"%s", %s, {%s}},' % (case, numbers(y), ", ".join(map(numbers, grads))))
print("};")
print("// clang-format on\n\n}  // namespace tandem::test")
