#!/bin/sh
# -cpt 0.1: a checkpoint each 6 s, so that the example is short. For a run of hours, take 5 (minutes).
# mdrun gets the arguments of this script: ./run.sh -nt 1
exec capture --to "${STORE:-$HOME/capture-store/gromacs}" --workdir auto \
  --inputs topol.tpr --results confout.gro --checkpoints state.cpt --trust-exit 1 --done-when confout.gro \
  --companions md.log --companions traj_comp.xtc --companions ener.edr \
  --results md.log --results traj_comp.xtc --results ener.edr \
  -- gmx mdrun -s topol.tpr -cpi state.cpt -cpt 0.1 "$@"
