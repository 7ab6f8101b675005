#!/bin/bash
# Two arrays in Slurm: index 3 of the second one begins when index 3 of the first one is done, however often that was
# preempted and requeued (--dependency=aftercorr). Arguments are options of sbatch for both: ./submit.sh --partition=long
# Put the input into the store once, for all submissions: capture put in.melt s3://my-bucket/melt
set -eu
cd "$(dirname "$0")"
melt=$(sbatch --parsable "$@" melt.sbatch)
analyse=$(MELT=$melt sbatch --parsable --dependency="aftercorr:$melt" "$@" analyse.sbatch)
echo "$melt $analyse"
