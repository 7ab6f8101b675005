#!/bin/sh
# run.sh [STEPS]. 'sim.db*' also means -wal, -shm and -journal: without them, a restored database may be damaged.
exec capture --to "${STORE:-$HOME/capture-store/python-sqlite}" --workdir auto \
  --results steps.txt --checkpoints 'sim.db*' -- "$(realpath "$(dirname "$0")")/steps.py" "${1:-40}"
