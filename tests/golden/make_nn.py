#!/usr/bin/env python3
"""Golden numbers of PyTorch's layers, losses and first training steps: writes tests/nn/golden_nn.h.

Run with PyTorch 1.13 on the CPU (Debian 12: python3-torch), one thread:
    /usr/bin/python3 tests/golden/make_nn.py > tests/nn/golden_nn.h
"""
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

from fingerprint import fnv1a

torch.set_num_threads(1)


def numbers(values):
    return "{" + ", ".join("%r" % v for v in values) + "}"


def show(name, values, kind="double"):
    print("inline constexpr %s %s[] = %s;" % (kind, name, numbers(values)))


def show_bits(name, t):
    values = [struct.unpack("<I", struct.pack("<f", x))[0] for x in t.flatten().tolist()]
    print("inline constexpr std::uint32_t %s[] = {%s};" % (name, ", ".join("0x%08x" % v for v in values)))


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                         nn.Linear(256, 10))


def train(make):
    model = mlp()
    batches = [(torch.randn(32, 128), torch.randint(0, 10, (32,))) for _ in range(10)]
    optimizer = make(model.parameters())
    losses, right = [], []
    for _ in range(3):
        for x, y in batches:
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            right.append(int((out.argmax(1) == y).sum()))
    return batches, losses, right


def initial(name, fill, shape):
    torch.manual_seed(7)
    t = torch.empty(*shape)
    fill(t)
    values = t.flatten().tolist()
    print("inline constexpr InitGolden k%s{{%s}, %r, %r};"
          % (name, ", ".join(map(repr, values[:3])), values[-1], t.double().sum().item()))


print("""// Golden numbers of PyTorch %s on one CPU thread.
// Written by tests/golden/make_nn.py: do not edit.
#pragma once

#include <cstdint>

namespace tandem::test {

// clang-format off
// ---- Linear(128, 256), Linear(256, 256), Linear(256, 10) under seed 0""" % torch.__version__)
model = mlp()
for i, layer in ((0, model[0]), (1, model[2]), (2, model[4])):
    print("inline constexpr std::uint64_t kMlpHash%d[] = {0x%016x, 0x%016x};  // weight, bias"
          % (i, fnv1a([layer.weight]), fnv1a([layer.bias])))
show_bits("kMlpWeight", model[0].weight[0, :3])
show_bits("kMlpBias", model[0].bias[:3])

print("\n// ---- three epochs of ten batches (randn(32, 128), randint(0, 10, (32,)))")
for name, make in (("Adam", lambda p: torch.optim.Adam(p, lr=1e-3)),
                   ("Sgd", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
                   ("AdamW", lambda p: torch.optim.AdamW(p, lr=1e-3))):
    batches, losses, right = train(make)
    show("kLosses" + name, losses)
    show("kRight" + name, right, "int")
show("kFirstInputs", batches[0][0][0, :3].tolist())
show("kFirstTargets", batches[0][1][:8].tolist(), "int")

print("""
// ---- nn.init under seed 7
struct InitGolden {
  double first[3], last, sum;
};""")
initial("Uniform", lambda t: nn.init.uniform_(t, -0.3, 0.7), (5, 7))
initial("Normal", lambda t: nn.init.normal_(t, 0.5, 2.0), (5, 7))
initial("KaimingUniform", lambda t: nn.init.kaiming_uniform_(t, nonlinearity="relu"), (6, 3, 2, 2))
initial("KaimingFanOut", lambda t: nn.init.kaiming_uniform_(t, 0.1, mode="fan_out"), (6, 3, 2, 2))
initial("KaimingNormal", lambda t: nn.init.kaiming_normal_(t, nonlinearity="relu"), (6, 3, 2, 2))
initial("XavierUniform", lambda t: nn.init.xavier_uniform_(t, 5.0 / 3), (9, 4))
initial("XavierNormal", lambda t: nn.init.xavier_normal_(t), (9, 4))

print("\n// ---- losses: logits (3, 4) with large and equal entries, targets 2 0 3")
logits = torch.tensor([[1.0, -2.0, 0.5, 3.0], [100.0, 0.0, -100.0, 50.0], [0.25, 0.25, 0.25, 0.25]],
                      requires_grad=True)
target = torch.tensor([2, 0, 3])
for reduction in ("mean", "sum", "none"):
    loss = F.cross_entropy(logits, target, reduction=reduction)
    seed = torch.tensor([1.0, -2.0, 0.5]) if reduction == "none" else torch.tensor(1.0)
    grad, = torch.autograd.grad(loss, logits, seed)
    show("kCrossEntropy" + reduction.title(), loss.detach().flatten().tolist())
    show("kCrossEntropyGrad" + reduction.title(), grad.flatten().tolist())
print("// clang-format on\n\n}  // namespace tandem::test")
