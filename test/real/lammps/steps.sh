#!/bin/sh
# One attempt of in.steps in the current directory: resumes from the newest file of those that the arguments name.
# NAMES, EVERY, PAUSE, CELLS, TRAJ: the variables of in.steps.
# No ls: the end of a child casts doubt on what is closed in the next seconds.
from=
for file; do
  if [ -e "$file" ] && { [ -z "$from" ] || [ "$file" -nt "$from" ]; }; then from=$file; fi
done
resume=0
[ -z "$from" ] || resume=1
export OMP_NUM_THREADS=1 OMPI_MCA_btl=self,vader OMPI_MCA_plm=isolated
# Line by line: the test takes the time of each.
exec stdbuf -oL lmp -in in.steps -log none -var resume "$resume" -var from "$from" -var names "$NAMES" \
  -var every "$EVERY" -var pause "$PAUSE" -var cells "$CELLS" -var traj "$TRAJ"
