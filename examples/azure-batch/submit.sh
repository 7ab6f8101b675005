#!/bin/bash
# Creates a job with one task for each index on a pool of spot nodes that mounts an NFS share as `lab`. The image of its
# nodes has capture and LAMMPS. To finish what the job melt-1 has left: RUN=melt-1 ./submit.sh melt-2
# Put the input into the store once, for all jobs, on a node: capture put in.melt "$AZ_BATCH_NODE_MOUNTS_DIR/lab/melt"
set -euo pipefail
job=${1:?usage: submit.sh <name of the job>}
run=${RUN:-$job}

# Azure Batch retries a task that exits with anything but 0, at most maxTaskRetryCount times. If it evicts a spot node, it
# requeues the tasks of the node, as often as needed. It has no index of an array: JOB_ARRAY_INDEX is it.
# --workdir auto: a fresh directory for each attempt, in the node's memory if there is room.
task() { # <index>
  cat <<JSON
{
  "id": "melt-$1",
  "commandLine": "/bin/bash -c 'exec capture --to \"\$AZ_BATCH_NODE_MOUNTS_DIR/lab/melt/$run\" --from \"\$AZ_BATCH_NODE_MOUNTS_DIR/lab/melt\" --workdir auto --max-attempts 10 --skip-done --inputs in.melt --results \"frame.*.dump\" --results final.data --results melt.log --checkpoints melt.chk -- lmp -in in.melt'",
  "environmentSettings": [{ "name": "JOB_ARRAY_INDEX", "value": "$1" }],
  "constraints": { "maxTaskRetryCount": 10, "maxWallClockTime": "P1D" }
}
JSON
}

tasks=$(mktemp)
trap 'rm -f "$tasks"' EXIT
{ echo "[" && task 0 && for index in 1 2 3; do echo "," && task "$index"; done && echo "]"; } >"$tasks"
az batch job create --id "$job" --pool-id "${POOL:-spot}"
az batch task create --job-id "$job" --json-file "$tasks" --output none
