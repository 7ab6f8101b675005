#!/bin/sh
# run.sh [ROWS]. The program is named by its absolute path: each attempt starts in an empty directory.
exec capture --to "${STORE:-$HOME/capture-store/python-hdf5}" --workdir auto \
  --results final.h5 --checkpoints series.h5 -- "$(realpath "$(dirname "$0")")/series.py" "${1:-40}"
