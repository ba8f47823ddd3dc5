#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds the release, and trains
# a small convolutional network on the 1,797 digits of the repository over two logical devices.
#
#   tools/demo.sh [options of train_cnn]
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
cmake --preset release
cmake --build --preset release --target train_cnn
build/release/samples/train_cnn --devices 2 "$@"
