#!/usr/bin/env bash
# Runs the samples and looks at what they print: samples/check.sh FOLDER_OF_THE_PROGRAMS
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

echo "single_device and data_parallel: at most three lines differ, the results do not"
more=$(diff "$here/single_device.cpp" "$here/data_parallel.cpp" | grep -c '^>' || true)
less=$(diff "$here/single_device.cpp" "$here/data_parallel.cpp" | grep -c '^<' || true)
((more > 0 && more <= 3 && less <= 3)) || fail "$less lines became $more"
./single_device >"$scratch/single"
./data_parallel >"$scratch/parallel"
# Two rows of 360 may fall on the other side: sums are added in another order.
paste "$scratch/single" "$scratch/parallel" |
  awk '{ d = $5 - $10; if (d < -0.006 || d > 0.006) exit 1 }  $1 != "epoch" { exit 1 }  END { exit NR != 10 || $5 < 0.9 }' ||
  fail "the accuracies differ: $(paste "$scratch/single" "$scratch/parallel")"

echo "quickstart: PyTorch's numbers on 1, 2, 3 and 4 devices"
for devices in 1 2 3 4; do
  ./quickstart --seed 0 --devices $devices | tee "$scratch/quickstart"
  # From PyTorch 1.13.1; the printed digits round off half a unit more.
  tr 'a-zA-Z:=,' ' ' <"$scratch/quickstart" | awk '
    BEGIN { split("2.309227 2.120518 1.949934", loss, " "); split("0.11875 0.440625 0.575", acc, " ") }
    function off(a, b) { return a - b > 0.00015 || b - a > 0.00015 }
    $1 != NR || off($2, loss[NR]) || off($3, acc[NR]) { bad = 1 }
    END { exit bad || NR != 3 }' || fail "quickstart --devices $devices"
  grep -qvE '^Epoch [0-9]+: Loss=[0-9]\.[0-9]{4}, Acc=[0-9]\.[0-9]{4}$' "$scratch/quickstart" &&
    fail "a line of another form"
done
for optimizer in sgd adamw; do
  ./quickstart --optimizer $optimizer --momentum 0.9 | grep -q '^Epoch 3' || fail "quickstart --optimizer $optimizer"
done

echo "quickstart_cnn: PyTorch's losses on 1 and 3 devices"
for devices in 1 3; do
  ./quickstart_cnn --seed 0 --batch 128 --devices $devices | tee "$scratch/quickstart"
  # From PyTorch 1.13.1 with the same script, one thread.
  tr 'a-zA-Z:=,' ' ' <"$scratch/quickstart" | awk '
    BEGIN { split("2.321104 2.308655 2.300235", loss, " ") }
    $1 != NR || $2 - loss[NR] > 0.00015 || loss[NR] - $2 > 0.00015 { bad = 1 }
    END { exit bad || NR != 3 }' || fail "quickstart_cnn --devices $devices"
done

echo "imbalance: the first device's peak over the mean falls from over 2 to at most 1.25"
./imbalance | tail -n 5 | tee "$scratch/imbalance"
awk 'NR == 2 && $NF < 2 { bad = 1 }  NR > 2 && $NF > 1.25 { bad = 1 }  END { exit bad || NR != 5 }' \
  "$scratch/imbalance" || fail "imbalance"
awk 'NR > 1 { print $(NF - 3) }' "$scratch/imbalance" | sort -u | wc -l | grep -qx 1 ||
  fail "the cures change the loss"

echo "train_cnn: trains, saves, loads, follows schedules"
./train_cnn --devices 2 --save "$scratch/cnn.safetensors" --gradients --summary | tee "$scratch/cnn"
tail -n 1 "$scratch/cnn" | awk '$1 != "test" || $3 < 0.97 { exit 1 }' || fail "less than 0.97"
grep -q '^epoch .* | cpu:1 ' "$scratch/cnn" || fail "no line of memory per device"
grep -qE '^0.weight +\(32, 1, 3, 3\)' "$scratch/cnn" || fail "no gradient of 0.weight"
for schedule in step cosine warmup onecycle; do
  ./train_cnn --epochs 1 --load "$scratch/cnn.safetensors" --schedule $schedule | tail -n 1 |
    awk '$3 < 0.95 { exit 1 }' || fail "train_cnn --load --schedule $schedule"
done
for amp in bf16 fp16; do
  ./train_cnn --epochs 2 --load "$scratch/cnn.safetensors" --amp $amp --clip 1 --devices 2 >"$scratch/amp"
  tail -n 1 "$scratch/amp" | awk '$3 < 0.95 { exit 1 }' || fail "train_cnn --amp $amp"
done
grep -qE '^scale [0-9]+, steps skipped: [0-9]$' "$scratch/amp" || fail "no line about the scale"
status=0
./train_mlp --epochs 1 --load "$scratch/cnn.safetensors" 2>"$scratch/error" || status=$?
[[ $status == 1 ]] && grep -q 'fc1.weight' "$scratch/error" || fail "weights of another network: $(cat "$scratch/error")"

echo "README.ja.md shows the code of README.md"
blocks() { sed -n '/^```\(cpp\|diff\|cmake\)/,/^```$/p' "$here/../$1"; }
diff <(blocks README.md) <(blocks README.ja.md) || fail "the code differs"

echo "train_mlp: trains, reports, and ends with the test accuracy"
./train_mlp --devices 2 | tee "$scratch/mlp"
tail -n 1 "$scratch/mlp" | grep -qE '^test accuracy 0\.[0-9]{4}$' || fail "the last line"
tail -n 1 "$scratch/mlp" | awk '{ exit $3 < 0.96 }' || fail "less than 0.96"
[[ $(grep -c '^epoch .* samples/s  cpu:0 ' "$scratch/mlp") == 20 ]] || fail "not a line for each epoch"
for word in parameter gradient optimizer activation; do
  grep '^peak MiB' "$scratch/mlp" | grep -q "$word" || fail "no memory of $word"
done
for phase in replicate scatter forward gather backward reduce; do
  grep -qE "^$phase +[0-9]" "$scratch/mlp" || fail "no phase $phase"
done
grep -q $'\r' "$scratch/mlp" && fail "a progress bar in a pipe"
gzip -c "$here/data/digits.csv" >"$scratch/digits.csv.gz"
./train_mlp --devices cpu:0,cpu:3,cpu:1 --epochs 1 --accumulate 4 --batch 61 | grep '^epoch' | cut -d' ' -f1-6 >"$scratch/accumulated"
./train_mlp --devices 1 --epochs 1 --batch 61 --data "$scratch/digits.csv.gz" | grep '^epoch' | cut -d' ' -f1-6 >"$scratch/plain"
paste "$scratch/accumulated" "$scratch/plain" | awk '{ d = $5 - $10; exit d < -0.001 || d > 0.001 }' ||
  fail "4 micro-batches on 3 devices: $(cat "$scratch/accumulated"), one batch on one: $(cat "$scratch/plain")"
if command -v script >/dev/null; then  # gives the program a terminal
  script -qec "./train_mlp --epochs 1" "$scratch/terminal" >/dev/null </dev/null
  grep -q 'epoch  1 \[=' "$scratch/terminal" || fail "no progress bar on a terminal"
fi

echo "train_mlp: Ctrl-C ends it with 130 within a second and leaves no file"
mkdir "$scratch/empty"
program=$PWD/train_mlp
status=0
(cd "$scratch/empty" && exec timeout --preserve-status -s INT -k 1 0.5 "$program" --epochs 1000000 >/dev/null) || status=$?
[[ $status == 130 ]] || fail "status $status instead of 130"
[[ -z $(ls -A "$scratch/empty") ]] || fail "files: $(ls "$scratch/empty")"

echo "bad input is refused with a message and a status"
status=0
./train_mlp --data /nowhere.csv 2>"$scratch/error" || status=$?
[[ $status == 1 ]] && grep -q "cannot open '/nowhere.csv'" "$scratch/error" || fail "a missing file"
status=0
./train_mlp --save "$scratch/nowhere/x.safetensors" >"$scratch/out" 2>"$scratch/error" || status=$?
[[ $status == 1 && ! -s $scratch/out ]] && grep -q "nowhere/x.safetensors" "$scratch/error" ||
  fail "a folder that is not there was noticed after training, or not at all"
touch "$scratch/empty/test_batch.bin"  # CIFAR-10's, but not asked for
(cd "$scratch/empty" && "$OLDPWD/train_cnn" --data fashion-mnist --epochs 1 --lr -1 2>&1) |
  grep -q cifar10 && fail "--data fashion-mnist looked at the working directory"
mkdir -p "$scratch/cifar/cifar-10-batches-bin"
touch "$scratch/cifar/cifar-10-batches-bin/test_batch.bin"
(./train_cnn --data "$scratch/cifar" 2>&1 || true) | grep -q 'data_batch_1.bin' ||
  fail "the folder above CIFAR-10's is not read as CIFAR-10"
head -c 300 "$here/data/digits.csv" >"$scratch/short.csv"
status=0
./train_mlp --data "$scratch/short.csv" 2>"$scratch/error" || status=$?
[[ $status == 1 ]] && grep -q "short.csv, line 3" "$scratch/error" || fail "a corrupt file: $(cat "$scratch/error")"
for arguments in "--devices 0" "--devices cpu:0,cpu:0" "--batch 0" "--optimizer none"; do
  if ./train_mlp $arguments >/dev/null 2>&1; then fail "train_mlp $arguments was accepted"; fi
done
echo "all samples are as they should be"
