#!/usr/bin/env python3
"""quickstart_cnn's training step in PyTorch's DistributedDataParallel: two processes, gloo.

    ddp.py PATH/TO/steps [--rounds N]

Each process has one thread and half of the batch of 128, on a core of its own. Tandem's step on two
logical devices (`steps serve`) takes turns with it; whoever's turn it is not, sleeps.
"""
import argparse
import os
import statistics
import subprocess
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 128
STEPS = 3  # of a round


def trainer(channels_last):
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(128, 10))
    x = torch.randn(BATCH // 2, 3, 32, 32)
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (BATCH // 2,))
    net = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def milliseconds(step):
    """The median of a round's steps, all ranks together."""
    step()
    times = []
    for _ in range(STEPS):
        dist.barrier()
        start = time.perf_counter()
        step()
        dist.barrier()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def run(rank, cores, program, rounds):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    tandem = None
    if rank == 0:  # started before this process binds itself to one core
        tandem = subprocess.Popen([program, "serve"], text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    ways = {"row-major": trainer(False), "channels-last": trainer(True)}
    ours, theirs = [], {name: [] for name in ways}
    for _ in range(rounds):
        if rank == 0:
            tandem.stdin.write("step\n")
            tandem.stdin.flush()
            ours.append(float(tandem.stdout.readline()))
        dist.barrier()
        for name, step in ways.items():
            theirs[name].append(milliseconds(step))
    if rank == 0:
        tandem.stdin.close()
        tandem.wait()
        print(f"cnn, batch {BATCH}, 2 devices: tandem {statistics.median(ours):22.3f} ms")
        for name, ms in theirs.items():
            print(f"  {'PyTorch DDP, 2 processes, ' + name:42s} {statistics.median(ms):9.3f} ms")
        best = min(theirs.values(), key=statistics.median)
        ratio = statistics.median(a / b for a, b in zip(ours, best))
        print(f"ratio cnn_step_2dev_of_ddp {ratio:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="build/release/bench/steps")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, set(cores))
    mp.spawn(run, (cores, args.program, args.rounds), nprocs=2)
