#!/bin/sh
# Makes topol.tpr, a box of water, from files that come with GROMACS.
cd "$(dirname "$0")" || exit
cat > topol.top <<'END'
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
END
gmx -quiet -nobackup solvate -cs spc216 -box 2 2 2 -o water.gro -p topol.top &&
  gmx -quiet -nobackup grompp -f md.mdp -c water.gro -p topol.top -po full.mdp -o topol.tpr
