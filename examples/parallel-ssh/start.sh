#!/bin/bash
# Starts a worker on each machine of a list, over ssh: ./start.sh machines.txt (a line for each: [user@]host[:port]).
# Each machine has capture in its PATH, and in ~/.config/capture/worker.env, which only you can read, the queue:
#   CAPTURE_QUEUE=redis://head:6379/lab
#   REDISCLI_AUTH=...
# The worker outlives the connection. It ends when there was nothing to do for ten minutes.
# To end it before: parallel-ssh --hosts machines.txt 'kill $(cat ~/capture-worker.pid)'. Tasks write their checkpoints, and
# return to the queue.
set -eu
parallel-ssh --hosts "${1:?usage: start.sh machines.txt}" --inline '
  set -a && . ~/.config/capture/worker.env && set +a || exit
  nohup capture worker --idle-timeout 10m > ~/capture-worker.log 2>&1 < /dev/null &
  echo $! > ~/capture-worker.pid'
