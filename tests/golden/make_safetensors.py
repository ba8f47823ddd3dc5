#!/usr/bin/env python3
"""Writes tests/io/data/*.safetensors with Python's safetensors (0.8.0; any newer one should give the same).

  python3 -m venv --system-site-packages /tmp/v && /tmp/v/bin/pip install safetensors   # and python3-torch
  /tmp/v/bin/python tests/golden/make_safetensors.py

All values are multiples of 1/4 from -2 to 3, exact in every type, so that the tests state them as formulas. The weights
of net.safetensors are a network's; its output for the input 0.5 0.25 -1 is printed and stands in tests/io/python.cpp.
"""
import os

import torch
from safetensors.torch import save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "io", "data")


def save(tensors, name, metadata=None):
    save_file(tensors, os.path.join(FOLDER, name), metadata=metadata)


def ramp(*shape):
    """-1, -0.75, -0.5, ..."""
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count, dtype=torch.float64) / 4 - 1).reshape(shape)


os.makedirs(FOLDER, exist_ok=True)
types = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8,
}
tensors = {name: (ramp(2, 3) if dtype.is_floating_point else ramp(2, 3) * 4 + 5).to(dtype)
           for name, dtype in types.items()}  # integers: 1 2 3 4 5 6
tensors["bool"] = torch.tensor([True, False, True])
tensors["scalar"] = torch.tensor(2.5)
tensors["empty"] = torch.zeros(0, 3)
tensors["special"] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
save(tensors, "all_types.safetensors", {"made by": "Python \"safetensors\"\n\t\\ \u00e9 \u65e5\u672c \x01"})

save({"b/\u00e9\"\\\n": ramp(3).float(), "a": ramp(2, 2).float(), "c": torch.tensor(-2.0)}, "float32.safetensors",
     {"epoch": "3\u65e5\x1f"})
save({}, "none.safetensors")
save({"x": torch.tensor([1, 2], dtype=torch.int16)}, "int16.safetensors")

torch.manual_seed(0)
net = torch.nn.Sequential()
net.fc1, net.fc2 = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
net.register_buffer("mean", torch.tensor([0.5, 0.25, 0.125]))
save(net.state_dict(), "net.safetensors")
save({"module." + name: t for name, t in net.state_dict().items()}, "wrapped_net.safetensors")
x = torch.tensor([[0.5, 0.25, -1.0]])
print("output", net.fc2(torch.relu(net.fc1(x - net.mean))).tolist())
