#!/bin/sh
# User data of a spot instance: installs capture, runs what is left of the array, and then always shuts the machine down.
# If the instance was taken away, or the exit status was 75, start another one with the same user data.
# Needs Node 20.19 or later, npm and the AWS CLI in the image, and an instance role that may read and write the bucket.
# Once, from your machine: npm pack && aws s3 cp capture-sidecar-0.1.0.tgz s3://my-bucket/sim/, and the same for ./simulate
store=${STORE:-s3://my-bucket/sim}
export HOME=/root

# A trap, and not --on-end, so that the machine also shuts down if the installation fails. An idle machine costs as much as
# a busy one.
trap 'shutdown -h now' EXIT

work=$(mktemp -d) && cd "$work" || exit
aws s3 cp "$store/capture-sidecar-0.1.0.tgz" . && npm install --global ./capture-sidecar-0.1.0.tgz || exit
aws s3 cp "$store/simulate" . && chmod +x simulate || exit

# Two minutes before the instance is taken away, every task is signalled, writes its checkpoint, and is stored.
capture array --array 0-999 --retries 2 --results final.dat --checkpoints state.chk --to "$store/run1" \
  --log-file /var/log/capture.log -- ./simulate {index}
