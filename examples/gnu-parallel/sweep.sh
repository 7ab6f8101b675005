#!/bin/bash
# An array with GNU parallel, without a scheduler: as many tasks at once as there are cores. The index of a task is its place
# in the list, from 1; {} is its value. If everything was killed, run this again with the same list: what is done is skipped,
# and what was running resumes. For a new array, name another RUN.
# Put the input into the store once, for all runs: capture put in.melt s3://my-bucket/melt
base=${STORE:-s3://my-bucket/melt}
run=${RUN:-run1}

# --retries 5: a task that was preempted (75) or has failed is started again, up to five times in all.
# --quote: the patterns are for capture, not for the shell that parallel starts.
# --workdir auto: a fresh directory for each attempt, in memory if there is room.
exec parallel --quote --retries 5 capture --to "$base/$run" --from "$base" --workdir auto --skip-done \
  --inputs in.melt --results 'frame.*.dump' --results final.data --results melt.log --checkpoints melt.chk \
  -- lmp -in in.melt -screen none -var cells {} ::: 8 10 12 14
