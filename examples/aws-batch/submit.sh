#!/bin/sh
# Registers the job definition, submits an array of 100 tasks, and prints the job's id. Change the queue, and in
# job-definition.yaml the image, the role and the bucket. To continue job 12: RUN=<its id> ./submit.sh
set -eu
cd "$(dirname "$0")"
queue=${QUEUE:-spot}
size=${SIZE:-100}

definition=$(aws batch register-job-definition --cli-input-yaml file://job-definition.yaml \
  --query jobDefinitionArn --output text)
aws batch submit-job --job-name melt --job-queue "$queue" --job-definition "$definition" \
  --array-properties "size=$size" ${RUN:+--container-overrides "environment=[{name=RUN,value=$RUN}]"} \
  --query jobId --output text
