#!/bin/sh
# An array without a scheduler: runs four indices, one after the other, and repeats each while it is preempted.
# After a crash of the machine, run this again: it skips indices that are done and resumes the others.
cd "$(dirname "$0")/../.." || exit
PATH=$PWD/bin:$PWD/examples/demo:$PATH
store=${1:-$PWD/capture-store}
mkdir -p "$store" && cp examples/demo/heat.json "$store/" || exit

attempt() { # <index>
  capture --to "$store" --index "$1" --workdir auto --skip-done --max-attempts 10 \
    --inputs heat.json --results 'frame.*.pgm' --results final.dat --checkpoints heat.chk -- heat.mjs
  status=$?
}

for index in 0 1 2 3; do
  attempt "$index"
  while [ "$status" -eq 75 ]; do attempt "$index"; done
  [ "$status" -eq 0 ] || exit "$status"
done
