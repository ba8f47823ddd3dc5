#!/bin/sh
# keep_ptxas.sh COMMAND... -o OBJECT ...: runs the compiler and keeps what ptxas -v says of the
# kernels (registers, shared memory) in OBJECT.ptxas instead of on the screen.
[ -n "$1" ] || shift  # no launcher was there before this one
object=
previous=
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
[ -n "$object" ] || exec "$@"
"$@" 2>"$object.log"
result=$?
grep -E '^ptxas info|bytes stack frame' "$object.log" >"$object.ptxas"
grep -vE '^ptxas info|bytes stack frame' "$object.log" >&2
rm -f "$object.log"
exit $result
