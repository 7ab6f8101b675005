#!/bin/sh
# The outputs of each step are results. They are inputs, too: so the next attempt finds them, and skips what is done.
exec capture --to "${STORE:-$HOME/capture-store/snakemake}" --workdir auto \
  --results results/ --inputs results/ --inputs Snakefile --inputs data/ --exclude '**/*.tmp' \
  -- "$(realpath "$(dirname "$0")")/snake.sh"
