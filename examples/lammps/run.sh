#!/bin/sh
# The input appends to melt.log, so it is stored with each checkpoint, and once more when LAMMPS closes it.
# LAMMPS gets the arguments of this script.
exec capture --to "${STORE:-$HOME/capture-store/lammps}" --workdir auto --task-name melt \
  --inputs in.melt --results 'frame.*.dump' --results final.data --results melt.log --checkpoints melt.chk \
  -- lmp -in in.melt "$@"
