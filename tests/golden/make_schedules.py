#!/usr/bin/env python3
"""Golden numbers of PyTorch's learning rate schedules: writes tests/optim/golden_schedules.h.

Run with PyTorch 1.13 (Debian 12: python3-torch):
    /usr/bin/python3 tests/golden/make_schedules.py > tests/optim/golden_schedules.h
For each case and step: lr of every parameter group, then momentum (or beta1) of every group, as set
before that step's updates. tests/optim/schedule.cpp has the same cases under the same names.
"""
import warnings

import torch

warnings.filterwarnings("ignore")  # SequentialLR steps its parts in a way that warns
O = torch.optim
S = torch.optim.lr_scheduler

METRICS = [1.0, 0.9, 0.89999, 0.9, 0.95, 0.8, 0.81, 0.82, 0.83, 0.84, 0.85, 0.86, 0.79995, 0.79, 0.8,
           float("nan"), 0.9, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]


def groups(lrs):
    return [{"params": [torch.zeros(1, requires_grad=True)], "lr": lr} for lr in lrs]


def sgd(*lrs, momentum=0.9):
    return O.SGD(groups(lrs), lr=1.0, momentum=momentum)


def adam(*lrs):
    return O.Adam(groups(lrs))


def sequential(optimizer, parts, milestones):
    return S.SequentialLR(optimizer, [part(optimizer) for part in parts], milestones)


def plateau(optimizer, **options):
    return S.ReduceLROnPlateau(optimizer, **options)


CASES = [
    ("step", sgd(0.1), lambda o: S.StepLR(o, 2), 7),
    ("step groups", sgd(0.1, 0.02), lambda o: S.StepLR(o, 3, gamma=0.5), 10),
    ("cosine", sgd(0.1), lambda o: S.CosineAnnealingLR(o, 5, eta_min=0.01), 27),
    ("cosine groups", sgd(0.1, 0.3), lambda o: S.CosineAnnealingLR(o, 4, eta_min=0.001), 12),
    ("linear", sgd(0.1), lambda o: S.LinearLR(o), 8),
    ("linear down", sgd(0.1, 0.4), lambda o: S.LinearLR(o, 1.0, 0.2, total_iters=4), 7),
    ("sequential", sgd(0.1), lambda o: sequential(
        o, [lambda o: S.LinearLR(o, 0.1, total_iters=3), lambda o: S.CosineAnnealingLR(o, 4)],
        [3]), 12),
    ("sequential groups", sgd(0.1, 0.2), lambda o: sequential(
        o, [lambda o: S.LinearLR(o, 0.25, total_iters=2), lambda o: S.StepLR(o, 2),
            lambda o: S.CosineAnnealingLR(o, 3, eta_min=0.01)], [2, 7]), 12),
    ("one_cycle sgd", sgd(0.1), lambda o: S.OneCycleLR(o, 0.1, total_steps=10), 10),
    ("one_cycle adam", adam(1e-3, 2e-3), lambda o: S.OneCycleLR(
        o, [0.01, 0.05], epochs=4, steps_per_epoch=5, base_momentum=[0.8, 0.7],
        max_momentum=[0.9, 0.95]), 20),
    ("one_cycle linear", sgd(0.1), lambda o: S.OneCycleLR(
        o, 0.5, total_steps=12, pct_start=0.25, anneal_strategy="linear", cycle_momentum=False,
        div_factor=10, final_div_factor=100), 12),
    ("one_cycle three_phase", sgd(0.1), lambda o: S.OneCycleLR(
        o, 0.2, total_steps=20, pct_start=0.4, three_phase=True), 20),
    ("one_cycle half a phase", sgd(0.1), lambda o: S.OneCycleLR(
        o, 0.2, total_steps=7, pct_start=0.5), 7),
    ("plateau", sgd(0.1), lambda o: plateau(o, patience=2), None),
    ("plateau groups", sgd(0.1, 0.02),
     lambda o: plateau(o, factor=0.5, patience=1, cooldown=2, min_lr=[0.02, 0.004]), None),
    ("plateau abs", sgd(0.1),
     lambda o: plateau(o, factor=0.3, patience=2, threshold=0.05, threshold_mode="abs"), None),
    ("plateau max", sgd(0.1),
     lambda o: plateau(o, mode="max", factor=0.1, patience=0, threshold=0.02, eps=1e-3), None),
    ("plateau max abs", sgd(0.1),
     lambda o: plateau(o, mode="max", factor=0.1, patience=4, threshold=0.01,
                       threshold_mode="abs"), None),
]


def momentum(group):
    return group["momentum"] if "momentum" in group else group["betas"][0]


def row(optimizer):
    return [g["lr"] for g in optimizer.param_groups] + [momentum(g) for g in optimizer.param_groups]


def run(optimizer, make, steps):
    schedule = make(optimizer)
    rows = [row(optimizer)]
    for step in range((steps or len(METRICS) + 1) - 1):
        optimizer.step()
        schedule.step(*([METRICS[step]] if steps is None else []))
        rows.append(row(optimizer))
    return rows


def identifier(name):
    return "k" + "".join(word.capitalize() for word in name.replace("_", " ").split())


print("""// Golden numbers of PyTorch %s.
// Written by tests/golden/make_schedules.py: do not edit.
#pragma once

#include <limits>
#include <span>

namespace tandem::test {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// clang-format off
// What the plateau cases watch.
inline constexpr double kMetrics[] = {%s};
""" % (torch.__version__, ", ".join("kNan" if m != m else repr(m) for m in METRICS)))
for name, optimizer, make, steps in CASES:
    print("inline constexpr double %s[] = {" % identifier(name))
    for values in run(optimizer, make, steps):
        print("  " + ", ".join(map(repr, values)) + ",")
    print("};")
print("""
struct ScheduleGolden {
  const char* name;
  std::span<const double> values;  // step by step: lr of every group, momentum of every group
};

inline constexpr ScheduleGolden kScheduleGolden[] = {""")
for name, optimizer, make, steps in CASES:
    print('  {"%s", %s},' % (name, identifier(name)))
print("""};
// clang-format on

}  // namespace tandem::test""")
