#!/bin/sh
# LAMMPS overwrites its log when it starts: so each attempt has a log of its own. It is stored with each checkpoint
# (a companion), and once more when LAMMPS closes it (a result). LAMMPS gets the arguments of this script.
exec capture --to "${STORE:-$HOME/capture-store/lammps}" --workdir auto --task-name melt \
  --inputs in.melt --results 'frame.*.dump' --results final.data --checkpoints melt.chk \
  --companions 'log.*.lammps' --results 'log.*.lammps' \
  -- sh -c 'exec lmp -in in.melt -log "log.$CAPTURED_ATTEMPT.lammps" "$@"' melt "$@"
