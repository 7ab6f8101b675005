#!/bin/sh
# An array without a scheduler: four indices, one after the other, each again for as long as it was preempted.
# Run it again after a crash of the machine: what is done is skipped, what was begun goes on.
cd "$(dirname "$0")/.." || exit
PATH=$PWD/bin:$PWD/examples/demo:$PATH
store=${1:-$PWD/capture-store}
mkdir -p "$store" && cp examples/demo/heat.json "$store/" || exit

attempt() { # <index>
  work=$(mktemp -d) || exit
  capture --to "$store" --index "$1" --workdir "$work" --skip-done --max-attempts 10 \
    --inputs heat.json --results 'frame.*.pgm' --results final.dat --checkpoints heat.chk -- heat.mjs
  status=$?
  # Done, or to be run again: the store has it. Else, such as when something could not be stored (74), it stays.
  case $status in 0 | 75) rm -rf "$work" ;; esac
  return $status
}

for index in 0 1 2 3; do
  attempt "$index"
  while [ "$status" -eq 75 ]; do attempt "$index"; done
  [ "$status" -eq 0 ] || exit "$status"
done
