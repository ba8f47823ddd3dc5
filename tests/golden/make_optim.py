#!/usr/bin/env python3
"""Golden numbers of PyTorch's optimizers and clipping: writes tests/optim/golden_optim.h.

Run with PyTorch 1.13 on a CPU with AVX2 (Debian 12: python3-torch), one thread:
    /usr/bin/python3 tests/golden/make_optim.py > tests/optim/golden_optim.h
Parameters and gradients come from an integer hash that golden_test.cpp computes as well, so only
results are kept: a 64-bit FNV-1a hash of all bits after some steps, and a few values as bits.
"""
import struct

import torch

from fingerprint import MASK, fnv1a

torch.set_num_threads(1)
SIZES = [5, 64, 1003]  # shorter than a vector register, whole registers, registers and a tail
STEPS = 50
HASHED = [1, 10, 50]


def mix(x):  # splitmix64
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def value(step, param, i):
    """In [-1, 1), times a power of two from 1 to 1/128: exact in float32."""
    h = mix((step * 16 + param) * 4096 + i)
    return ((h >> 40) / 2.0**23 - 1.0) / 2.0 ** (h & 7)


def tensor(step, param, dtype):
    return torch.tensor([value(step, param, i) for i in range(SIZES[param])], dtype=dtype)


def bits(t):
    code, width = ("<f", "<I") if t.dtype == torch.float32 else ("<d", "<Q")
    return [struct.unpack(width, struct.pack(code, x))[0] for x in t.detach().tolist()]


O = torch.optim
CASES = [
    ("sgd", lambda p: O.SGD(p, lr=0.1), {}),
    ("sgd weight_decay", lambda p: O.SGD(p, lr=0.1, weight_decay=0.01), {}),
    ("sgd momentum", lambda p: O.SGD(p, lr=0.03, momentum=0.9), {}),
    ("sgd dampening", lambda p: O.SGD(p, lr=0.03, momentum=0.9, dampening=0.3), {}),
    ("sgd nesterov", lambda p: O.SGD(p, lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4), {}),
    ("sgd maximize", lambda p: O.SGD(p, lr=0.03, momentum=0.8, weight_decay=1e-3, maximize=True), {}),
    ("sgd float64", lambda p: O.SGD(p, lr=0.03, momentum=0.9, weight_decay=5e-4),
     {"dtype": torch.float64}),
    ("adam", lambda p: O.Adam(p), {}),
    ("adam options", lambda p: O.Adam(p, lr=3e-3, betas=(0.8, 0.95), eps=1e-6), {}),
    ("adam weight_decay", lambda p: O.Adam(p, lr=1e-2, weight_decay=0.02), {}),
    ("adam amsgrad", lambda p: O.Adam(p, lr=1e-2, amsgrad=True), {}),
    ("adam maximize", lambda p: O.Adam(p, lr=1e-2, maximize=True), {}),
    ("adam float64", lambda p: O.Adam(p, lr=1e-2, weight_decay=0.02, amsgrad=True),
     {"dtype": torch.float64}),
    ("adamw", lambda p: O.AdamW(p), {}),
    ("adamw amsgrad", lambda p: O.AdamW(p, lr=1e-2, weight_decay=0.1, amsgrad=True), {}),
    ("adam skips", lambda p: O.Adam(p, lr=1e-2), {"skips": True}),
    ("sgd schedule", lambda p: O.SGD(p, lr=0.1, momentum=0.9), {"schedule": True}),
    ("adamw groups",
     lambda p: O.AdamW([{"params": p[:1]}, {"params": p[1:], "lr": 1e-2, "weight_decay": 0.0}]), {}),
]
STATES = ["momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]


def run(make, dtype=torch.float32, skips=False, schedule=False):
    params = [tensor(0, k, dtype).requires_grad_() for k in range(len(SIZES))]
    optimizer = make(params)
    hashes = []
    for step in range(1, STEPS + 1):
        for k, p in enumerate(params):
            # skips: parameter 1 has a gradient in every third step only
            p.grad = None if skips and k == 1 and step % 3 else tensor(step, k, dtype)
        if schedule and step == 25:  # as a schedule would: a tenth from step 25 on
            for group in optimizer.param_groups:
                group["lr"] *= 0.1
        optimizer.step()
        if step in HASHED:
            hashes.append(fnv1a(params))
    state = [optimizer.state[p][s] for s in STATES for p in params
             if optimizer.state[p].get(s) is not None]
    return hashes, fnv1a(state), bits(params[0])


def clip(norm_type, max_norm, dtype=torch.float32):
    params = [tensor(0, k, dtype).requires_grad_() for k in range(len(SIZES))]
    for k, p in enumerate(params):
        p.grad = tensor(1, k, dtype)
    total = torch.nn.utils.clip_grad_norm_(params, max_norm, norm_type)
    return total.item(), [params[k].grad[i].item() for k, i in ((0, 0), (1, 63), (2, 1002))]


print("""// Golden numbers of PyTorch %s on one CPU thread.
// Written by tests/golden/make_optim.py: do not edit.
#pragma once

#include <cstdint>

namespace tandem::test {

struct OptimGolden {
  const char* name;
  std::uint64_t after[3];  // FNV-1a of all parameters after steps 1, 10 and 50
  std::uint64_t state;     // FNV-1a of all state tensors after step 50, tensor by tensor
  std::uint64_t bits[5];   // of the first parameter after step 50
};

// clang-format off
inline constexpr OptimGolden kOptimGolden[] = {""" % torch.__version__)
for name, make, options in CASES:
    hashes, state, values = run(make, **options)
    print('  {"%s",' % name)
    print("   {%s}, 0x%016x," % (", ".join("0x%016x" % h for h in hashes), state))
    print("   {%s}}," % ", ".join("0x%x" % v for v in values))
print("""};

struct ClipGolden {
  double norm_type, max_norm, total;
  double clipped[3];  // gradient 0 [0], 1 [63], 2 [1002]
};

inline constexpr double kInf = __builtin_inf();
inline constexpr ClipGolden kClipGolden[] = {""")
for norm_type, max_norm in ((2, 1.0), (2, 1e3), (1, 10.0), (3, 0.5), (float("inf"), 0.25)):
    total, values = clip(norm_type, max_norm)
    print("  {%s, %r, %r, {%s}}," % ("kInf" if norm_type == float("inf") else norm_type, max_norm,
                                    total, ", ".join(map(repr, values))))
print("""};
// clang-format on

}  // namespace tandem::test""")
