#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds the release, and trains
# an MLP on the 1,797 digits of the repository over two logical devices.
#
#   tools/demo.sh [options of train_mlp]
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
cmake --preset release
cmake --build --preset release --target train_mlp
build/release/samples/train_mlp --devices 2 "$@"
