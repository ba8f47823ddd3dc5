#!/usr/bin/env bash
# Builds and runs all tests; ends with ctest's summary.
#
#   tools/test.sh [preset] [ctest options]     presets: dev (default), asan, tsan
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-dev}
tools/setup.sh

# ThreadSanitizer cannot place its shadow memory when addresses are randomised over many bits, as
# newer kernels do; the tests are also started during the build, to list their cases.
steady=()
if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then
  steady=(setarch -R)
fi

cmake --preset "$preset"
"${steady[@]}" cmake --build --preset "$preset"
"${steady[@]}" ctest --preset "$preset" "${@:2}"
