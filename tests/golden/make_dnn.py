#!/usr/bin/env python3
"""Golden numbers of PyTorch's convolutions and poolings for the simulated cuDNN: writes
tests/cudasim/library_test/golden_dnn.h.

Run with PyTorch 1.13 on the CPU (Debian 12: python3-torch):
    /usr/bin/python3 tests/golden/make_dnn.py > tests/cudasim/library_test/golden_dnn.h
The inputs are multiples of 1/64 that dnn_golden_test.cpp computes as well; in float64 the results are
exact.
"""
import torch
import torch.nn.functional as F


def pattern(seed, shape):
    count = torch.Size(shape).numel()
    values = [((i * 37 + seed * 11) % 101 - 50) / 64 for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def numbers(t):
    return "{" + ", ".join(repr(v) for v in t.flatten().tolist()) + "}"


def pair(p):
    return "{%d, %d}" % p


CONVOLUTIONS = [  # x, w, padding, stride, dilation, groups
    ((2, 3, 5, 4), (2, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 4, 6, 7), (2, 2, 3, 2), (2, 0), (2, 3), (1, 2), 2),
    ((2, 3, 4, 4), (3, 1, 2, 2), (0, 1), (1, 1), (1, 1), 3),
]
POOLINGS = [  # mode, x, window, padding, stride
    ("CUDNN_POOLING_MAX_DETERMINISTIC", (1, 2, 5, 6), (3, 2), (1, 1), (2, 1)),
    ("CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING", (1, 2, 5, 6), (2, 4), (1, 2), (1, 2)),
    ("CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING", (1, 2, 5, 6), (4, 2), (1, 0), (1, 2)),
]


def convolution(x_shape, w_shape, padding, stride, dilation, groups):
    x = pattern(1, x_shape).requires_grad_()
    w = pattern(2, w_shape).requires_grad_()
    b = torch.zeros(w_shape[0], dtype=torch.float64).requires_grad_()
    y = F.conv2d(x, w, b, stride, padding, dilation, groups)
    y.backward(pattern(3, y.shape))
    print("    {{%s}, {%s}, {%s}," % tuple(", ".join(map(str, s)) for s in (x_shape, w_shape, y.shape)))
    print("     %s, %s, %s, %d," % (pair(padding), pair(stride), pair(dilation), groups))
    print("     %s, %s, %s, %s}," % tuple(numbers(t) for t in (y, x.grad, w.grad, b.grad)))


def pooling(mode, shape, window, padding, stride):
    x = pattern(1, shape).requires_grad_()
    if "MAX" in mode:
        y = F.max_pool2d(x, window, stride, padding)
    else:
        y = F.avg_pool2d(x, window, stride, padding, count_include_pad="INCLUDE" in mode)
    y.backward(pattern(3, y.shape))
    print("    {%s, {%s}, {%s}," % (mode, *(", ".join(map(str, s)) for s in (shape, y.shape))))
    print("     %s, %s, %s," % (pair(window), pair(padding), pair(stride)))
    print("     %s, %s}," % (numbers(y), numbers(x.grad)))


print("// Written by tests/golden/make_dnn.py with PyTorch %s; see there." % torch.__version__)
print("#pragma once\n\n#include <cudnn.h>\n\n#include <vector>\n\nnamespace golden {\n")
print("struct Convolution {\n  int x[4], w[4], y[4], pad[2], stride[2], dilation[2], groups;")
print("  std::vector<double> values, dx, dw, db;\n};")
print("struct Pooling {\n  cudnnPoolingMode_t mode;\n  int x[4], y[4], window[2], pad[2], stride[2];")
print("  std::vector<double> values, dx;\n};\n")
print("inline const Convolution kConvolutions[] = {")
for c in CONVOLUTIONS:
    convolution(*c)
print("};\n\ninline const Pooling kPoolings[] = {")
for p in POOLINGS:
    pooling(*p)
print("};\n\n}  // namespace golden")
