#!/bin/sh
# The outputs of each task are results. They are inputs, too: so the next attempt finds them, and Nextflow skips what is done.
# -resume would need work/ and .nextflow/ under the same absolute path: storeDir needs neither.
exec capture --to "${STORE:-$HOME/capture-store/nextflow}" --workdir auto \
  --results results/ --inputs results/ --inputs main.nf --inputs data/ -- nextflow run main.nf
