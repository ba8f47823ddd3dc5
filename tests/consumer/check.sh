#!/usr/bin/env bash
# Builds the project in this folder as its users would: tests/consumer/check.sh BUILD_FOLDER
#
#   1. against what `cmake --install BUILD_FOLDER` makes, after the prefix has been moved;
#   2. with Tandem inside the build (FetchContent, no network), in a debug build without oneDNN.
#
# Both with nothing of the caller's environment but PATH and the compiler cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
clean() {
  env -i PATH="$PATH" HOME="$scratch" \
    ${CMAKE_CXX_COMPILER_LAUNCHER:+CMAKE_CXX_COMPILER_LAUNCHER="$CMAKE_CXX_COMPILER_LAUNCHER"} \
    ${CCACHE_DIR:+CCACHE_DIR="$CCACHE_DIR"} "$@"
}

echo "install: headers, archive and package, and nothing that says where they were built"
cmake --install "$build" --prefix "$scratch/first" >"$scratch/installed"
mv "$scratch/first" "$scratch/prefix"
for path in "$source" "$build" "$scratch/first"; do
  ! grep -rl --include='*.cmake' --include='*.h' -F "$path" "$scratch/prefix" || fail "$path is in the files above"
done
[[ -z $(find "$scratch/prefix" -type l) ]] || fail "links: $(find "$scratch/prefix" -type l)"
[[ -z $(find "$scratch/prefix" -path '*/core/cpu/*' -o -path '*/core/cuda/*') ]] || fail "private headers"
[[ -f $scratch/prefix/include/tandem/tandem.h ]] || fail "no tandem.h"
! grep -rlE '#include <(Eigen|zlib|nlohmann|dnnl|oneapi)' "$scratch/prefix/include" || fail "a header needs more than Tandem"

echo "installed: find_package, own folders core/ and nn/"
clean cmake -G Ninja -S "$here" -B "$scratch/installed_build" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_BUILD_TYPE=Release >"$scratch/log" || fail "$(cat "$scratch/log")"
clean cmake --build "$scratch/installed_build" >"$scratch/log" || fail "$(cat "$scratch/log")"
"$scratch/installed_build/consumer"
clean cmake -G Ninja -S "$here" -B "$scratch/none" >"$scratch/log" 2>&1 &&
  fail "this system has another Tandem: which one was found above?"
grep -q 'tandemConfig.cmake' "$scratch/log" || fail "$(cat "$scratch/log")"

echo "inside: FetchContent, no tests, no samples, no flags of ours, whether a build type is chosen or not"
clean cmake -G Ninja -S "$here" -B "$scratch/no_type" -DTANDEM_SOURCE="$source" >"$scratch/log" 2>&1 ||
  fail "$(cat "$scratch/log")"
clean cmake -G Ninja -S "$here" -B "$scratch/inside_build" -DTANDEM_SOURCE="$source" \
  -DCMAKE_BUILD_TYPE=Debug -DTANDEM_ONEDNN=OFF >"$scratch/log" || fail "$(cat "$scratch/log")"
clean cmake --build "$scratch/inside_build" >"$scratch/log" || fail "$(cat "$scratch/log")"
"$scratch/inside_build/consumer"
clean cmake --install "$scratch/inside_build" --prefix "$scratch/theirs" >/dev/null
[[ ! -e $scratch/theirs/include ]] || fail "a project that contains Tandem installs it"
echo "a consumer builds both ways"
