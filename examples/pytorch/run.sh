#!/bin/sh
# run.sh [EPOCHS]. The program is named by its absolute path: each attempt starts in an empty directory.
exec capture --to "${STORE:-$HOME/capture-store/pytorch}" --workdir auto \
  --results model.pt --results model.txt --checkpoints train.pt -- "$(realpath "$(dirname "$0")")/train.py" "${1:-40}"
