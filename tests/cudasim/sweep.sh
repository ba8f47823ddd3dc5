#!/usr/bin/env bash
# The runs that are too long for every change: all planted host programs, the conformance suite and
# the tests of the libraries under 20 random seeds, and the conformance suite and the kernels with
# the PTX of three architectures. Prints one table and fails if anything did.
#   tests/cudasim/sweep.sh BUILD_DIR [SEEDS]       BUILD_DIR: where test_cudasim_planted lies
set -uo pipefail
build=$(cd "${1:?the folder with the test programs}" && pwd)
seeds=${2:-20}
table=$(mktemp)
trap 'rm -f "$table"' EXIT
failures=0

try() {  # title command...
  local title=$1 log
  shift
  if log=$(timeout -s KILL 600 "$@" 2>&1); then return; fi
  failures=$((failures + 1))
  printf 'FAILED: %s\n%s\n' "$title" "$(tail -n 20 <<<"$log")"
}

for seed in $(seq "$seeds"); do
  export CUDASIM_SEED=$seed
  try "conformance, seed $seed" env CUDASIM_SCHEDULE=random "$build/test_cudasim_conformance"
  try "libraries, seed $seed" env CUDASIM_SCHEDULE=random "$build/test_cudasim_libraries"
  try "planted, seed $seed" \
    env CUDASIM_SCHEDULE=random CUDASIM_TABLE="$table" "$build/test_cudasim_planted"
done
unset CUDASIM_SEED
try "libraries, threads" env CUDASIM_SCHEDULE=threads "$build/test_cudasim_libraries"
try "planted, lazy" env CUDASIM_TABLE="$table" "$build/test_cudasim_planted"
try "planted, threads" \
  env CUDASIM_SCHEDULE=threads CUDASIM_TABLE="$table" "$build/test_cudasim_planted"
if [ -x "$build/test_cudasim_planted_tsan" ]; then
  try "planted, ThreadSanitizer" env CUDASIM_TABLE="$table" "$build/test_cudasim_planted_tsan"
fi
for ptx in sm_75 sm_80 sm_90; do
  try "conformance, PTX for $ptx" env CUDASIM_PTX=$ptx "$build/test_cudasim_conformance"
  try "planted, PTX for $ptx" env CUDASIM_PTX=$ptx "$build/test_cudasim_planted"
done
for program in "$build"/test_cudasim_kernels "$build"/kernels/test_cudasim_kernels; do
  [ -x "$program" ] && try "kernels, three architectures" "$program"
done

awk -F' [|] ' -v seeds="$seeds" '
  !($1 in known) { known[$1] = 1; order[++n] = $1 }
  $3 != "-" { noticed[$1, $2]++ }
  $2 == "lazy" && $3 != "-" { split($3, how, ":"); kind[$1] = how[1] }
  function mark(title, stage) { return noticed[title, stage] ? "yes" : "-" }
  END {
    print "| planted defect | lazy | random | threads | ThreadSanitizer |"
    print "| --- | --- | --- | --- | --- |"
    for (i = 1; i <= n; ++i) {
      t = order[i]
      printf "| %s | %s | %d/%d | %s | %s |\n", t, (t in kind) ? kind[t] : "-",
             noticed[t, "random"], seeds, mark(t, "threads"), mark(t, "tsan")
    }
  }' "$table"
echo "$failures failures"
exit $((failures > 0))
