#!/usr/bin/env python3
"""Runs the commands that the documents quote, and puts what they print into the documents.

    tools/docs_numbers.py [build/release/samples]

In a document, `<!-- $ imbalance --devices 4 | tail -n 5 -->` stands above the block with its output:
that block is replaced. docs/step.svg is drawn anew as well. So every such number is from a run.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "README.ja.md", "docs/data_parallel.md"]
QUOTE = re.compile(r"<!-- \$ (?P<command>.+?) -->\n```text\n.*?```", re.DOTALL)
STEP = "tools/step_svg.py train_cnn --devices 3 --epochs 1"


def main():
    samples = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/samples")
    env = {**os.environ, "PATH": f"{samples.resolve()}:{os.environ['PATH']}"}
    outputs = {}

    def run(command):
        if command not in outputs:
            print("$", command, file=sys.stderr)
            outputs[command] = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT,
                                              env=env, capture_output=True, text=True,
                                              check=True).stdout
        return outputs[command]

    for name in DOCUMENTS:
        path = ROOT / name
        if not path.exists():
            continue
        text = path.read_text()
        path.write_text(QUOTE.sub(
            lambda m: f"<!-- $ {m['command']} -->\n```text\n{run(m['command']).rstrip()}\n```",
            text))
    (ROOT / "docs/step.svg").write_text(run(STEP))


if __name__ == "__main__":
    main()
