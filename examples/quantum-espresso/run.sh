#!/bin/sh
# run.sh [STEPS]. Each attempt writes an output file of its own, pw.1.out, pw.2.out: a companion, so that a killed attempt
# leaves it, too. The script is named by its absolute path, as each attempt starts in an empty directory.
exec capture --to "${STORE:-$HOME/capture-store/quantum-espresso}" --workdir auto \
  --inputs si.template --results out/si.xml --checkpoints out/ \
  --companions 'pw.*.out' --results 'pw.*.out' \
  -- "$(realpath "$(dirname "$0")")/md.sh" "${1:-200}"
