#!/usr/bin/env bash
# Installs what Tandem is built with, and only what is missing: Debian 12 or newer, Ubuntu 24.04 or
# newer, as root or with sudo.
#
#   tools/setup.sh            compiler, CMake, Ninja, Eigen; oneDNN, doctest, CLI11, zlib, nlohmann-json
#   tools/setup.sh --bench    also Google Benchmark
#   tools/setup.sh --peers    also libtorch, PyTorch, OpenBLAS and dlib, which tools/bench.sh compares with (about 600 MB)
#   tools/setup.sh --format   also clang-format
#   tools/setup.sh --fuzz     also clang, for the fuzzers
set -euo pipefail

packages=(g++ cmake ninja-build libeigen3-dev libdnnl-dev doctest-dev libcli11-dev zlib1g-dev
          nlohmann-json3-dev)
for option in "$@"; do
  case "$option" in
    --bench) packages+=(libbenchmark-dev) ;;
    --peers) packages+=(libbenchmark-dev libtorch-dev python3-torch libopenblas0-pthread libdlib-dev) ;;
    --format) packages+=(clang-format-14) ;;
    --fuzz) packages+=(clang libclang-rt-dev) ;;
    *)
      sed -n '2,10s/^# \{0,1\}//p' "$0"
      [[ "$option" == --help ]] && exit 0
      exit 2
      ;;
  esac
done

# A tool counts however it came here; a library is looked up in the package database.
present() {
  case "$1" in
    g++ | cmake | clang | clang-format-14) command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    *) [[ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" == "install ok installed" ]] ;;
  esac
}

missing=()
for package in "${packages[@]}"; do
  present "$package" || missing+=("$package")
done

if ((${#missing[@]})); then
  command -v apt-get >/dev/null || {
    echo "setup: this system has no apt-get; please install by hand: ${missing[*]}" >&2
    exit 1
  }
  as_root=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || {
      echo "setup: neither root nor sudo; please run: apt-get install ${missing[*]}" >&2
      exit 1
    }
    as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
  fi
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
fi

cmake_version=$(cmake --version | sed -n '1s/[^0-9]*//p')
if [[ "$(printf '%s\n' 3.25 "$cmake_version" | sort -V | head -n 1)" != 3.25 ]]; then
  echo "setup: CMake $cmake_version is too old, 3.25 is needed" >&2
  exit 1
fi
