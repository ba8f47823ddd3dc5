#!/usr/bin/python3
"""Golden numbers of a small net under PyTorch's autocast on a CPU, which knows bfloat16 only.

    tests/golden/make_amp.py > tests/amp/golden_amp.h

The net is Linear(12, 16), ReLU, Linear(16, 5), cross entropy, on 8 rows; what it starts from is
pattern(n, seed), written again in tests/amp/autocast.cpp. Needs torch (written with 1.13.1).
"""
import torch

torch.set_num_threads(1)


def pattern(shape, seed):
    n = torch.Size(shape).numel()
    values = [((i * 37 + seed * 11) % 101) / 64 - 0.78125 for i in range(n)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


net = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
with torch.no_grad():
    for seed, p in enumerate(net.parameters()):
        p.copy_(pattern(p.shape, seed) / 2)
x = pattern((8, 12), 7)
y = torch.tensor([i * 3 % 5 for i in range(8)])
with torch.autocast("cpu", dtype=torch.bfloat16):
    logits = net(x)
    loss = torch.nn.functional.cross_entropy(logits, y)
assert logits.dtype == torch.bfloat16 and loss.dtype == torch.float32
loss.backward()
grads = [p.grad for p in net.parameters()]
assert all(g.dtype == torch.float32 for g in grads)

print("""// Golden numbers of PyTorch %s on one CPU thread.
// Written by tests/golden/make_amp.py: do not edit.
#pragma once

namespace tandem::test {

// clang-format off
inline constexpr double kAmpLoss = %r;
inline constexpr double kAmpLogits[] = {%s};  // of rows 0 and 1, bfloat16
// Norms of the gradients of weight and bias of both layers, and their first elements.
inline constexpr double kAmpNorms[] = {%s};
inline constexpr double kAmpFirst[] = {%s};
// clang-format on

}  // namespace tandem::test""" % (
    torch.__version__, loss.item(), ", ".join(repr(v) for v in logits[:2].flatten().tolist()),
    ", ".join(repr(g.norm().item()) for g in grads),
    ", ".join(repr(g.flatten()[0].item()) for g in grads)))
