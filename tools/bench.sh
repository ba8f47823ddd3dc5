#!/usr/bin/env bash
# Measures Tandem beside its peers and the limits of this machine, and prints one table of ratios.
#
#   tools/bench.sh [--json FILE] [--no-setup]
#
# Builds the release, installs the peers that are missing (--no-setup: uses those that are there; a
# ratio whose peer is not there is left out) and runs every program of bench/ on two cores. Leave the
# machine alone meanwhile: about five minutes. FILE gets {"ratios": {name: value}}.
# bench/README.md says what each ratio is; bench/RESULTS.md keeps results.
set -euo pipefail
cd "$(dirname "$0")/.."

json="" setup=yes
while (($#)); do
  case $1 in
    --json) json=${2:?--json needs a file}; shift ;;
    --no-setup) setup=no ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done

[[ $setup == no ]] || tools/setup.sh --bench --peers
cmake --preset release
cmake --build --preset release
bench=build/release/bench

# glibc gives freed blocks of 128 KiB and more back to the system at first, and keeps them once it
# has seen larger ones. It costs libtorch a third of a small step in page faults: peers get their
# best, and what they do as they were installed is measured apart.
export MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=1073741824

# libtorch multiplies with whatever BLAS is installed. OpenBLAS does not know every virtual machine:
# the kernels that are quickest here are found by trying.
best=""
for core in "" Haswell Zen SkylakeX Cooperlake; do
  ms=$(OPENBLAS_CORETYPE=$core timeout 120 "$bench/steps" blas 2>/dev/null) || continue
  [[ -n $ms ]] || continue
  echo "libtorch's MLP step, batch 1024, OPENBLAS_CORETYPE=${core:-(its own choice)}: $ms ms"
  if [[ -z $best ]] || awk "BEGIN { exit !($ms < $best) }"; then
    best=$ms
    export OPENBLAS_CORETYPE=$core
  fi
done
[[ -n ${OPENBLAS_CORETYPE:-} ]] || unset OPENBLAS_CORETYPE

log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() { echo; echo "== $*"; "$@" | tee -a "$log"; }
run "$bench/steps"
run env -u MALLOC_MMAP_THRESHOLD_ -u MALLOC_TRIM_THRESHOLD_ "$bench/steps" mlp --suffix _as_installed
if python3=$(PATH=/usr/bin:$PATH command -v python3) && "$python3" -c 'import torch.distributed' 2>/dev/null; then
  run "$python3" bench/peers/ddp.py "$bench/steps"
else
  echo "PyTorch for Python was not found (tools/setup.sh --peers): no comparison with DDP"
fi
run "$bench/engine_cost"
[[ ! -x $bench/tiny_op ]] || run "$bench/tiny_op"
[[ ! -x $bench/layouts ]] || run "$bench/layouts"
run "$bench/kernels"

# A step on two devices is compared with the best of all that PyTorch can do with two cores.
awk -v json="$json" '
  /^ratio / { value[$2] = $3; if (!($2 in seen)) { seen[$2] = 1; names[++n] = $2 } }
  END {
    for (peer in value)
      if (peer ~ /^cnn_step_2dev_of_/ && value[peer] > value["cnn_step_2dev"])
        value["cnn_step_2dev"] = value[peer]
    if ("cnn_step_2dev" in value) names[++n] = "cnn_step_2dev"
    # name, gate, and whether the value must stay below it or above it
    gates = "cnn_step_1t 0.85 < cnn_step_2dev 0.80 < mlp64_step 0.60 < mlp1024_step 0.95 < " \
            "tiny_nograd 0.35 < tiny_grad 0.35 < gemm_of_onednn 0.85 > conv_of_onednn 0.85 > " \
            "pointwise_of_limit 0.8 > adam_of_limit 0.8 > dp2_speedup 1.8 > dp_overhead_ms 0.1 <"
    count = split(gates, g, " ")
    for (i = 1; i <= count; i += 3) { gate[g[i]] = g[i + 1]; side[g[i]] = g[i + 2] }
    printf "\n%-28s %9s   %s\n", "ratio", "value", "should be"
    for (i = 1; i <= n; ++i) {
      name = names[i]; v = value[name]; verdict = ""
      if (name in gate) {
        ok = side[name] == "<" ? v <= gate[name] : v >= gate[name]
        verdict = side[name] "= " gate[name] (ok ? "" : "   NOT REACHED")
      }
      printf "%-28s %9.3f   %s\n", name, v, verdict
    }
    if (json != "") {
      printf "{\"ratios\": {" > json
      for (i = 1; i <= n; ++i)
        printf("%s\"%s\": %s", (i == 1 ? "" : ", "), names[i], value[names[i]]) > json
      printf "}}\n" > json
    }
  }' "$log"
