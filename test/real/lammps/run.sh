#!/bin/sh
# One attempt of the melt in the current directory: resumes when melt.chk is there.
# TOTAL, EVERY: steps in all, steps between two frames and restart files.
resume=0
[ ! -s melt.chk ] || resume=1
export OMP_NUM_THREADS=1 OMPI_MCA_btl=self,vader OMPI_MCA_plm=isolated
exec lmp -in in.melt -var resume "$resume" -var total "$TOTAL" -var every "$EVERY" \
  -log "log.lammps.$resume" -screen none
