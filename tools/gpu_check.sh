#!/usr/bin/env bash
# What only a real GPU can check: cuBLAS and cuDNN themselves, machine code, timing, recovery. Needs a
# driver, the CUDA toolkit and cuDNN; where there is no GPU every stage says that it is skipped.
#
#   tools/gpu_check.sh             all stages, in the order of their worth (about 8 minutes on 16 cores)
#   tools/gpu_check.sh 0 1 2       only these
#   tools/gpu_check.sh --dry-run   builds what would be run, and stops there
#
#   0 probe   1 build   2 smoke   3 the rules of the runtime   4 every test case on the GPU
#   5 DataParallel on logical devices   6 compute-sanitizer   7 PyTorch's numbers   8 speed
#
# Set OUT to a folder to keep the log of each stage. The status is 1 if a stage failed.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-$(mktemp -d)}
bin=build/gpu/tests
export TANDEM_CUDA_DEVICES_PER_GPU=${TANDEM_CUDA_DEVICES_PER_GPU:-64}  # tests name up to cuda:47
stages=(0 1 2 3 4 5 6 7 8)
names=(probe build smoke runtime cases parallel sanitizer pytorch speed)
seconds=(20 400 60 60 240 180 240 60 120)

skip() {
  echo "skipped: $*"
  exit 77
}

stage_0() {
  nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv
  nvcc --version | tail -n 2
}

stage_1() {
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .) ||
    architecture=
  cmake --preset gpu ${architecture:+-DTANDEM_CUDA_ARCHITECTURES=$architecture}
  cmake --build --preset gpu
}

# One op of each kind, and three steps of training.
smoke='op add:*,op matmul:*,op softmax*,op sum:*,op conv2d:*,op max_pool2d:*,op batch_norm*'
stage_2() {
  TANDEM_TEST_DEVICE=cuda $bin/test_core_gpu --test-case="$smoke"
  build/gpu/samples/quickstart --seed 0 --devices cuda:0
}

stage_3() { $bin/cudasim/test_cuda_conformance; }

stage_4() {
  local status=0
  for folder in core nn optim amp data io; do
    echo "== $folder"
    TANDEM_TEST_DEVICE=cuda $bin/test_${folder}_gpu || status=1
  done
  return $status
}

stage_5() {
  TANDEM_TEST_DEVICE=cuda $bin/test_parallel_gpu
  for devices in cuda:0 cuda:0,cuda:1 cuda:0,cuda:1,cuda:2,cuda:3; do
    build/gpu/samples/train_cnn --devices $devices --epochs 5 | tee "$out/train_cnn"
    grep -q 'test accuracy 0.9[5-9]' "$out/train_cnn"
  done
}

stage_6() {
  command -v compute-sanitizer >/dev/null || skip "no compute-sanitizer here"
  for tool in memcheck racecheck initcheck; do
    echo "== $tool"
    TANDEM_TEST_DEVICE=cuda timeout 80 compute-sanitizer --tool $tool --error-exitcode 1 \
      $bin/test_core_gpu --test-case="${smoke%%,op conv2d*}"
  done
}

# The numbers of the reference script, with TF32 off.
stage_7() {
  for devices in cuda:0 cuda:0,cuda:1 cuda:0,cuda:1,cuda:2; do
    build/gpu/samples/quickstart --seed 0 --devices $devices | tee "$out/quickstart"
    awk -F'[=,]' -v want='2.3092 2.1205 1.9499' '
      BEGIN { split(want, loss, " ") }
      { d = $2 - loss[NR]; if (d > 2e-4 || d < -2e-4) bad = 1 }
      END { exit bad || NR != 3 }' "$out/quickstart"
  done
}

stage_8() {
  for devices in 1 cuda:0 cuda:0,cuda:1; do
    echo "== quickstart_cnn --batch 128 --devices $devices"
    build/gpu/samples/quickstart_cnn --batch 128 --devices $devices
  done
}

if [[ ${1:-} == --stage ]]; then
  "stage_$2"
  exit
fi
if [[ ${1:-} == --dry-run ]]; then
  cmake --preset gpu >/dev/null
  cmake --build --preset gpu
  echo "gpu_check: built; nothing was run"
  exit
fi
(($#)) && stages=("$@")

reason=
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi >/dev/null 2>&1; then
  reason="no GPU with a driver here"
fi
failed=0 rows=()
for s in "${stages[@]}"; do
  start=$SECONDS status=0
  if [[ -n $reason ]]; then
    echo "==== stage $s, ${names[s]}: skipped, $reason"
    rows+=("$(printf '%d %-10s skipped: %s' "$s" "${names[s]}" "$reason")")
    continue
  fi
  echo "==== stage $s, ${names[s]} (at most ${seconds[s]} s)"
  timeout -k 10 "${seconds[s]}" "$0" --stage "$s" 2>&1 | tee "$out/$s-${names[s]}.log" || status=$?
  case $status in
    0) result=ok ;;
    77) result="skipped" ;;
    124 | 137) result="FAILED: stopped after ${seconds[s]} s" failed=1 ;;
    *) result="FAILED: status $status" failed=1 ;;
  esac
  rows+=("$(printf '%d %-10s %4d s  %s' "$s" "${names[s]}" $((SECONDS - start)) "$result")")
done
printf '\n'
printf '%s\n' "${rows[@]}"
exit $failed
