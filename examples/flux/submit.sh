#!/bin/bash
# An array of four tasks in Flux. Flux does not run a job again: so this script stays, and submits the array again while
# capture exits 75 for one of them (`--wait` exits with the highest status). Tasks that are done end at once (--skip-done).
# Put the input into the store once, for all submissions: capture put in.melt s3://my-bucket/melt
base=${STORE:-s3://my-bucket/melt}
# A prefix for each submission. If this script was killed, too: RUN=<the same> ./submit.sh
run=${RUN:-$(date +%Y%m%d-%H%M%S)}
echo "run $run"

# --workdir auto: a fresh directory for each attempt, in the node's memory if there is room.
# --max-attempts: give up after ten attempts without a newer checkpoint.
# Flux sends SIGKILL 5 s after SIGTERM, unless the site has set another kill-timeout. Then set --grace to 3 s less.
status=75
while [ $status -eq 75 ]; do
  status=0
  flux submit --cc=0-3 --wait --quiet -n 1 --time-limit=4h --job-name=melt --output='melt.{{id}}.out' \
    capture --to "$base/$run" --from "$base" --workdir auto --max-attempts 10 --skip-done \
    --inputs in.melt --results 'frame.*.dump' --results final.data --results melt.log --checkpoints melt.chk \
    -- lmp -in in.melt || status=$?
done
exit $status
