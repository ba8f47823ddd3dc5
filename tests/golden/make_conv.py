#!/usr/bin/env python3
"""Golden numbers of PyTorch's convolution and pooling: writes tests/nn/golden_conv.h.

Run with PyTorch 1.13 on the CPU (Debian 12: python3-torch), one thread:
    /usr/bin/python3 tests/golden/make_conv.py > tests/nn/golden_conv.h
Inputs are 2 rand() - 1 under seed 11, which Tandem draws bit for bit.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from fingerprint import fnv1a

torch.set_num_threads(1)


def show(name, values):
    values = values.flatten().tolist() if torch.is_tensor(values) else values
    text = ["kNan" if v != v else repr(v) for v in values]
    print("inline constexpr double %s[] = {%s};" % (name, ", ".join(text)))


def drawn(*shape):
    return (2 * torch.rand(*shape) - 1).requires_grad_()


def conv(name, x, w, bias=True, **options):
    torch.manual_seed(11)
    x, w = drawn(*x), drawn(*w)
    b = drawn(w.shape[0]) if bias else None
    y = F.conv2d(x, w, b, **options)
    seed = 2 * torch.rand(y.shape) - 1
    grads = torch.autograd.grad(y, [t for t in (x, w, b) if t is not None], seed)
    for part, t in zip(("Y", "Dx", "Dw", "Db"), (y,) + grads):
        show("k%s%s" % (name, part), t)


def pool(name, x, f):
    x = x.clone().requires_grad_()
    y = f(x)
    torch.manual_seed(11)
    dx, = torch.autograd.grad(y, x, 2 * torch.rand(y.shape) - 1)
    show("k%sY" % name, y)
    show("k%sDx" % name, dx)


def below_zero(*shape):
    torch.manual_seed(11)
    return torch.rand(*shape) - 2


def cnn():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(128, 10))


print("""// Golden numbers of PyTorch %s on one CPU thread.
// Written by tests/golden/make_conv.py: do not edit.
#pragma once

#include <cstdint>
#include <limits>

namespace tandem::test {

// clang-format off
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ---- conv2d under seed 11: x, weight, bias, then the seed of backward, all 2 rand() - 1""" % torch.__version__)
conv("Plain", (2, 2, 3, 3), (2, 2, 2, 2))
conv("Strided", (1, 2, 5, 4), (3, 2, 3, 2), stride=(2, 1), padding=(1, 1))
conv("Dilated", (1, 1, 5, 6), (2, 1, 2, 3), bias=False, padding=(0, 1), dilation=(3, 2))
conv("Grouped", (1, 4, 3, 3), (6, 2, 2, 2), groups=2, stride=2, padding=1)

print("\n// ---- pooling")
ties = torch.tensor([[[[1., 1., 2., 0.], [1., 1., 0., 2.], [-5., 3., 7., 7.], [3., 3., 7., 7.]]]])
pool("MaxTies", ties, lambda x: F.max_pool2d(x, 2))
pool("MaxTiesOverlap", ties, lambda x: F.max_pool2d(x, 3, 1))
q = float("nan")
nans = torch.tensor([[[[1., q, 2., 0.], [q, 5., 0., 2.], [-5., 3., 7., q], [3., 3., -7., 7.]]]])
pool("MaxNan", nans, lambda x: F.max_pool2d(x, 2))
pool("MaxNanOverlap", nans, lambda x: F.max_pool2d(x, 3, 1))
pool("MaxBelowZero", below_zero(1, 2, 4, 5), lambda x: F.max_pool2d(x, 3, 2, 1))
pool("MaxCeil", below_zero(1, 1, 5, 6), lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True))
pool("MaxCeilDropped", below_zero(1, 1, 4, 4), lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True))
pool("MaxDilated", below_zero(1, 1, 6, 5), lambda x: F.max_pool2d(x, 2, 1, 1, dilation=(3, 2)))
pool("AvgCeil", below_zero(1, 1, 5, 6), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True))
pool("AvgNoPad", below_zero(1, 1, 5, 6),
     lambda x: F.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True, count_include_pad=False))
pool("AvgDivisor", below_zero(1, 1, 4, 4), lambda x: F.avg_pool2d(x, 2, 1, divisor_override=3))
for size in ((3, 2), (5, 4), (1, 1)):
    pool("Adaptive%d%d" % size, below_zero(1, 2, 7, 5), lambda x: F.adaptive_avg_pool2d(x, size))

print("\n// ---- Conv2d(3, 64, 3), Conv2d(64, 128, (3, 5), groups=4), Conv2d(2, 4, 2, bias=False), seed 0")
torch.manual_seed(0)
for i, layer in enumerate((nn.Conv2d(3, 64, 3), nn.Conv2d(64, 128, (3, 5), groups=4),
                           nn.Conv2d(2, 4, 2, bias=False))):
    print("inline constexpr std::uint64_t kConvHash%d[] = {%s};"
          % (i, ", ".join("0x%016x" % fnv1a([p]) for p in layer.parameters())))

print("\n// ---- the small CNN: five steps of Adam, batches of 8, under seed 0")
model = cnn()
batches = [(torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))) for _ in range(5)]
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for x, y in batches:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
show("kLossesCnn", losses)
print("// clang-format on\n\n}  // namespace tandem::test")
