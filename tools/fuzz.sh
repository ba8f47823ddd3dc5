#!/usr/bin/env bash
# Builds the fuzzers with clang and lets each run, two at a time.
#
#   tools/fuzz.sh             20 seconds each
#   tools/fuzz.sh 300         5 minutes each
#   tools/fuzz.sh 300 idx     only this one: safetensors, idx, cifar, csv
#
# What they found worth keeping stays in build/fuzz/corpus, and the next run goes on from there. A
# finding ends the run with the bytes in build/fuzz/findings: pass the file to build/fuzz/tests/fuzz/
# NAME_fuzz to see it again.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-20}
shift $(($# > 0))
targets=("$@")
((${#targets[@]})) || targets=(safetensors idx cifar csv)
build=build/fuzz

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz

# seed TARGET NAME: a file to begin with, from standard input.
seed() {
  mkdir -p "$build/corpus/$1"
  cat >"$build/corpus/$1/$2"
}
for file in tests/io/data/*.safetensors; do seed safetensors "$(basename "$file")" <"$file"; done
printf '\0\0\x08\x02\0\0\0\x02\0\0\0\x03abcdef' | seed idx uint8
printf '\0\0\x0e\x01\0\0\0\x01abcdefgh' | seed idx float64
printf '\0\0\x0d\x03\0\0\0\x01\0\0\0\0\0\0\0\x07' | seed idx empty
head -c 3073 /dev/zero | seed cifar one
{ printf '\x09'; head -c 6145 samples/data/digits.csv; } | seed cifar two
head -n 3 samples/data/digits.csv | seed csv digits
printf '1,-2.5e3\r\n\n .5 ,\t7\n' | seed csv blanks

mkdir -p "$build/findings"
run() {
  local options=("-max_total_time=$seconds" -print_final_stats=1 -rss_limit_mb=2048 -timeout=10
                 "-artifact_prefix=$build/findings/$1-")
  case "$1" in
    safetensors) options+=(-dict=tests/fuzz/safetensors.dict) ;;
    cifar) options+=(-max_len=9300) ;;  # three records
  esac
  local log="$build/$1.log" result=ok
  "$build/tests/fuzz/$1_fuzz" "${options[@]}" "$build/corpus/$1" >"$log" 2>&1 || result=FAILED
  printf '%-12s %s: %s executions, %s new inputs, coverage %s\n' "$1" "$result" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(sed -n 's/^stat::new_units_added: *//p' "$log")" \
    "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)"
  [[ $result == ok ]] || { tail -n 40 "$log"; return 1; }
}

failed=0
for ((i = 0; i < ${#targets[@]}; i += 2)); do
  jobs=()
  for target in "${targets[@]:i:2}"; do
    run "$target" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=1; done
done
exit "$failed"
