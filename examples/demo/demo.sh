#!/bin/bash
# The demo (`npm run demo`): kills a computation half-way, and capture with it, and runs it again on an empty machine.
# It prints what really happens: if a check below fails, the demo ends.
# demo.sh [STORE]: a URL or a directory, in which it makes a new prefix. What it stores there is not deleted.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
PATH=$here/../../bin:$here:$here/../../node/bin:$PATH # heat.mjs runs by the archive's own Node, if this is in one

readonly bound_seconds=60

lab=$(mktemp -d "${TMPDIR:-/tmp}/capture-demo.XXXXXX")
capture_pid=
clean_up() {
  local status=$?
  trap - EXIT
  [ -z "$capture_pid" ] || kill_tree "$capture_pid"
  rm -rf "$lab"
  exit $status
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

heading() { printf '\n# %s\n' "$*"; }
fail() {
  echo "demo: $*" >&2
  exit 1
}

children_of() { cat "/proc/$1/task/$1/children" 2>/dev/null || pgrep -P "$1" || true; }
tree_of() {
  echo "$1"
  for child in $(children_of "$1"); do tree_of "$child"; done
}
# Like a power cut: launcher, sidecar and task get no chance to do anything.
kill_tree() {
  # shellcheck disable=SC2046
  kill -KILL $(tree_of "$1") 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

store=../store
case ${1-} in
  '') ;;
  *://*) store=${1%/}/${lab##*/} ;;
  *) store=$(realpath -m "$1")/${lab##*/} ;; # each machine has a directory of its own
esac
readonly store
readonly command=(capture --to "$store" --index 7 --inputs heat.json
  --results 'frame.*.pgm' --results final.dat --checkpoints heat.chk -- heat.mjs)

# Starts the command on a machine that has nothing: the input comes from the store.
start_on() { # <machine>
  mkdir "$lab/$1"
  cd "$lab/$1"
  echo "$ ${command[*]@Q}" | sed "s/'\([A-Za-z0-9.:@/~-]*\)'/\1/g"
  "${command[@]}" > >(tee "$lab/$1.out") &
  capture_pid=$!
}

half_is_safe() {
  grep -q 'step 4000' "$lab/machine-1.out" && grep -q 'checkpoint .* is safe' "$lab/machine-1.err"
}

mkdir "$lab/store" "$lab/reference"
cd "$lab/reference"
capture put --log-level warn "$here/heat.json" "$store"

heading 'One machine begins. It has an empty work directory; the input is in the store.'
start_on machine-1 2> >(tee "$lab/machine-1.err" >&2)
until half_is_safe; do
  kill -0 "$capture_pid" 2>/dev/null || fail 'the first attempt ended before half of it was safe'
  [ $SECONDS -lt $bound_seconds ] || fail "half of it was not safe within $bound_seconds s"
  sleep 0.02
done
kill_tree "$capture_pid"
capture_pid=

heading 'Half-way, the machine is lost: kill -KILL to all its processes, and its disk is deleted. The same command on another machine:'
rm -rf "$lab/machine-1"
start_on machine-2
wait "$capture_pid" || fail "the second attempt ended with $?"
capture_pid=
grep -q 'resumes from heat.chk' "$lab/machine-2.out" || fail 'the second attempt started from scratch'

heading 'The store:'
cd "$lab/reference"
if [ -e ../store/heat.json ]; then
  (cd ../store && find . -type f ! -path './.capture-store/*' | LC_ALL=C sort | sed 's|^\./||')
else
  capture ls "$store" 7
fi

heading 'Every stored result, compared with a run without capture and without interruption:'
cp "$here/heat.json" .
heat.mjs >heat.out
capture gather --log-level warn "$store" ../gathered --array 7
for file in frame.*.pgm final.dat; do
  cmp "../gathered/7/$file" "$file" || fail "$file differs"
  echo "identical: $file"
done
