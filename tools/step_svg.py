#!/usr/bin/env python3
"""Draws docs/step.svg: one data-parallel step, with the milliseconds and bytes of a real run.

    tools/step_svg.py build/release/samples/train_cnn --devices 3 --epochs 1 > docs/step.svg

Runs the given sample, reads its table "the last training step", and draws a lane for each device.
"""
import re
import subprocess
import sys

COLUMN, BOX, LANE, LEFT, TOP = 116, 96, 92, 92, 74
COLOURS = {"move": "#f6d481", "compute": "#93bdae", "first": "#dc9396"}
# Title, the phase of the table it shows, what it is, and on which devices it runs.
STEPS = [
    ("scatter", "scatter", "move", "all"),
    ("replicate", "replicate", "move", "all"),
    ("forward", "forward", "compute", "all"),
    ("gather", "gather", "move", "all"),
    ("loss", None, "first", "first"),
    ("backward", "backward", "compute", "all"),
    ("reduce", "reduce", "move", "all"),
    ("optimizer", None, "first", "first"),
]
OUT, HOME = {"scatter", "replicate"}, {"gather", "reduce"}


def read_step(text):
    lines = text.split("the last training step\n", 1)[1].splitlines()
    devices = re.findall(r"(\w+:\d+) ms", lines[0])
    table = {}
    for line in lines[1:7]:
        name, *numbers = line.split()
        values = [float(n) for n in numbers]
        table[name] = list(zip(values[::2], values[1::2]))  # (ms, KiB) of each device
    return devices, table


def size(kib):
    return f"{kib / 1024:.1f} MiB" if kib >= 1000 else f"{kib:.1f} KiB"


def draw(devices, table, command):
    width = LEFT + COLUMN * len(STEPS) + 10
    height = TOP + LANE * len(devices)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12">',
        "<title>One data-parallel step</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#444"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]

    def text(x, y, words, anchor="middle", extra=""):
        out.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {extra}>{words}</text>')

    for name, first, last in (("forward", 0, 4), ("backward", 5, 6), ("step", 7, 7)):
        x1, x2 = LEFT + COLUMN * first, LEFT + COLUMN * last + BOX
        text((x1 + x2) / 2, 18, name, extra='font-size="13" font-weight="bold"')
        out.append(f'<path d="M{x1} 26H{x2}" stroke="#999"/>')
    for lane, device in enumerate(devices):
        y = TOP + LANE * lane
        out.append(f'<path d="M{LEFT - 8} {y + 22}H{width - 8}" stroke="#ddd"/>')
        text(8, y + 20, device, "start", 'font-weight="bold"')
        text(8, y + 35, f"rank {lane}", "start", 'fill="#666"')
    for column, (title, phase, _, _) in enumerate(STEPS):  # behind the boxes
        if title not in OUT | HOME:
            continue
        for lane in range(1, len(devices)):
            x = LEFT + COLUMN * column + 12 + 56 * (lane - 1)
            near, far = TOP + 46, TOP + LANE * lane - 2
            start, end = (near, far) if title in OUT else (far, near)
            out.append(f'<path d="M{x} {start}V{end}" stroke="#444" marker-end="url(#tip)"/>')
            text(x + 5, far - 10, size(table[phase][lane][1]), "start", 'font-size="10" fill="#444"')
    for column, (title, phase, kind, where) in enumerate(STEPS):
        x = LEFT + COLUMN * column
        text(x + BOX / 2, TOP - 22, title)
        for lane in range(len(devices) if where == "all" else 1):
            y = TOP + LANE * lane
            out.append(f'<rect x="{x}" y="{y}" width="{BOX}" height="44" rx="6" '
                       f'fill="{COLOURS[kind]}"/>')
            words = {"loss": "all rows", "optimizer": "all parameters"}.get(title)
            text(x + BOX / 2, y + 26, words or f"{table[phase][lane][0]:.2f} ms")
    text(LEFT, height - 12, f"Milliseconds and bytes of the last step of: {command}", "start",
         'font-size="11" fill="#666"')
    out.append("</svg>")
    return "\n".join(out)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    run = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True)
    devices, table = read_step(run.stdout)
    command = " ".join([sys.argv[1].rsplit("/", 1)[-1], *sys.argv[2:]])
    print(draw(devices, table, command))


if __name__ == "__main__":
    main()
