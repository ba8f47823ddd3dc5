#!/usr/bin/env bash
# The runs that are too long for every change: each call of CUDA in a training failing once, the
# data-parallel cases in 20 random orders on four machines, and the backend's tests and theirs with
# the address and undefined-behaviour sanitizers. Builds what it needs; prints a line for each run.
#
#   tests/cuda/sweep.sh [failures] [seeds] [sanitizers]     without a word: all three
#   SEEDS=5 tests/cuda/sweep.sh seeds
set -uo pipefail
cd "$(dirname "$0")/../.."
parts=("$@")
(($#)) || parts=(failures seeds sanitizers)
dev=build/dev/tests/cuda asan=build/asan/tests/cuda
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0 runs=0
machines=("CUDASIM_DEVICES=20" "CUDASIM_DEVICES=20 CUDASIM_PEER_ACCESS=0"
          "CUDASIM_DEVICES=1 TANDEM_CUDA_DEVICES_PER_GPU=20"
          "CUDASIM_DEVICES=10 TANDEM_CUDA_DEVICES_PER_GPU=2")
cases_on_cuda="env TANDEM_TEST_DEVICE=cuda CUDASIM_MEMORY=2147483648"  # 64 MiB are too few

try() {  # title command...
  local title=$1 start=$SECONDS result=ok
  shift
  timeout -k 10 3000 "$@" >"$log" 2>&1 || { result="FAILED, status $?"; failed=$((failed + 1)); }
  runs=$((runs + 1))
  printf '%-64s %4d s  %s  %s\n' "$title" $((SECONDS - start)) "$result" \
    "$(sed -n 's/^.doctest. \(test cases\|assertions\): *\([0-9]*\) |.*/\2 \1/p' "$log" | paste -sd,)"
  [[ $result == ok ]] || tail -n 40 "$log"
}

build() {  # preset
  cmake --preset "$1" >/dev/null && cmake --build build/"${1#cuda-}" --target test_cuda test_parallel_cuda
}

for part in "${parts[@]}"; do
  case $part in
    failures)
      build dev || exit 1
      for cases in "failures: each call that*" "failures: the n-th call*"; do
        try "$cases" $dev/test_cuda --no-skip --test-case="$cases"
        grep -E '[0-9]+ calls' "$log" | sed 's/^/  /'
      done
      ;;
    seeds)
      build dev || exit 1
      for seed in $(seq "${SEEDS:-20}"); do
        machine=${machines[seed % 4]}
        order="CUDASIM_SCHEDULE=random CUDASIM_SEED=$seed"
        try "parallel, seed $seed, $machine" \
          $cases_on_cuda $machine $order $dev/test_parallel_cuda
        try "steps, seed $seed" env CUDASIM_DEVICES=3 $order \
          $dev/test_cuda --test-case="copies*,streams*,overlap*,train*,topology*"
      done
      ;;
    sanitizers)
      build cuda-asan || exit 1
      try "test_cuda, ASan and UBSan" $asan/test_cuda
      for machine in "${machines[@]}"; do
        try "parallel, ASan and UBSan, $machine" \
          $cases_on_cuda $machine $asan/test_parallel_cuda
      done
      ;;
    *)
      echo "no part '$part'; there are: failures seeds sanitizers" >&2
      exit 2
      ;;
  esac
done
echo "$runs runs, $failed failed"
exit $((failed > 0))
