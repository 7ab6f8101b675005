#!/bin/sh
# cut-back.sh STEP: cuts traj.lammpstrj back to the frames before STEP, in place, as GROMACS does with its own.
[ -e traj.lammpstrj ] || exit 0
bytes=$(LC_ALL=C awk -v step="$1" '
  /^ITEM: TIMESTEP$/ { getline number; if (number + 0 >= step) exit; bytes += length(number) + 1 }
  { bytes += length($0) + 1 }
  END { print bytes + 0 }' traj.lammpstrj)
truncate -s "$bytes" traj.lammpstrj
