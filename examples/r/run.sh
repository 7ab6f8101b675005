#!/bin/sh
# run.sh [ROUNDS]. The program is named by its absolute path: each attempt starts in an empty directory.
exec capture --to "${STORE:-$HOME/capture-store/r}" --workdir auto \
  --results means.csv --checkpoints state.rds -- Rscript "$(realpath "$(dirname "$0")")/bootstrap.R" "${1:-40}"
