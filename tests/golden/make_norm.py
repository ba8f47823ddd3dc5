#!/usr/bin/env python3
"""Golden numbers of PyTorch's batch norm and layer norm: writes tests/nn/golden_norm.h.

Run with PyTorch 1.13 on the CPU (Debian 12: python3-torch), one thread:
    /usr/bin/python3 tests/golden/make_norm.py > tests/nn/golden_norm.h

Inputs are the numbers of pattern(), which are exact in float32 and made the same way by the tests.
"""
import torch
import torch.nn as nn

torch.set_num_threads(1)


def pattern(shape, a, b):
    n = 1
    for s in shape:
        n *= s
    return torch.tensor([((i * a + b) % 64) / 16 - 2 for i in range(n)]).view(*shape)


def show(name, t):
    values = ", ".join("%r" % v for v in t.detach().flatten().tolist())
    print("inline constexpr double %s[] = {%s};" % (name, values))


def set_affine(layer):
    with torch.no_grad():
        layer.weight.copy_(pattern(layer.weight.shape, 13, 40))
        layer.bias.copy_(pattern(layer.bias.shape, 29, 7))


def gradients(name, layer, x, y):
    x.grad = layer.weight.grad = layer.bias.grad = None
    y.backward(pattern(y.shape, 27, 5))
    show(name + "Dx", x.grad)
    show(name + "Dweight", layer.weight.grad)
    show(name + "Dbias", layer.bias.grad)


def batch_norm(name, layer, shape):
    print("\n// ---- %s on %s: three training steps, then evaluation" % (layer, list(shape)))
    set_affine(layer)
    for step in range(3):
        x = pattern(shape, 37 + 2 * step, 11 * step).requires_grad_()
        y = layer(x)
        show("k%sY%d" % (name, step), y)
        show("k%sMean%d" % (name, step), layer.running_mean)
        show("k%sVar%d" % (name, step), layer.running_var)
    gradients("k" + name, layer, x, y)
    layer.eval()
    y = layer(x)
    show("k%sEvalY" % name, y)
    gradients("k%sEval" % name, layer, x, y)


def layer_norm(name, layer, shape):
    print("\n// ---- %s on %s" % (layer, list(shape)))
    set_affine(layer)
    x = pattern(shape, 37, 0).requires_grad_()
    y = layer(x)
    show("k%sY" % name, y)
    gradients("k" + name, layer, x, y)


print("""// Golden numbers of PyTorch %s on one CPU thread.
// Written by tests/golden/make_norm.py: do not edit.
#pragma once

namespace tandem::test {

// clang-format off""" % torch.__version__)
batch_norm("Rows", nn.BatchNorm1d(3), (5, 3))
batch_norm("Lines", nn.BatchNorm1d(2, momentum=None), (3, 2, 4))
batch_norm("Images", nn.BatchNorm2d(2, eps=1e-3, momentum=0.3), (2, 2, 3, 2))
layer_norm("Layer", nn.LayerNorm(6), (4, 6))
layer_norm("Planes", nn.LayerNorm((2, 3), eps=1e-3), (3, 2, 3))
print("// clang-format on\n\n}  // namespace tandem::test")
