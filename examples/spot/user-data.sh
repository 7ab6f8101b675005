#!/bin/sh
# User data of a spot instance: installs capture, runs what is left of the array, and then always shuts the machine down.
# Needs Node 20.19 or later, npm and the AWS CLI in the image, and an instance role that may read and write the bucket
# (the rights are in examples/aws-batch/job-role-policy.json).
# Once, from your machine: npm pack && aws s3 cp capture-sidecar-0.1.0.tgz s3://my-bucket/sim/, and the same for ./simulate
#
# To start it:
#   aws ec2 run-instances --image-id ami-... --instance-type c7i.4xlarge --iam-instance-profile Name=sim \
#     --instance-market-options MarketType=spot --instance-initiated-shutdown-behavior terminate \
#     --user-data file://user-data.sh
# (Without `terminate`, a shutdown only stops the instance, and you go on paying for its disk.)
# What ends it: all tasks have ended, the installation has failed, or EC2 takes it away. To end it yourself:
#   aws ec2 terminate-instances --instance-ids i-...
# If something is left, start another one with the same user data.
store=${STORE:-s3://my-bucket/sim}
export HOME=/root

# cloud-init writes all output of this script to this file and to the console. The file is lost with the machine, so it is
# stored in s3://my-bucket/sim/log/, also if the installation fails. To look while the instance runs, or if not even that
# worked: aws ec2 get-console-output --latest --output text --instance-id i-...
log=/var/log/cloud-init-output.log
# A trap, and not --on-end, so that the machine also shuts down if the installation fails. An idle machine costs as much as
# a busy one.
trap 'timeout 60 aws s3 cp "$log" "$store/log/$(hostname).log"; shutdown -h now' EXIT

work=$(mktemp -d) && cd "$work" || exit
aws s3 cp "$store/capture-sidecar-0.1.0.tgz" . && npm install --global ./capture-sidecar-0.1.0.tgz || exit
aws s3 cp "$store/simulate" . && chmod +x simulate || exit

# Two minutes before the instance is taken away, every task is signalled, writes its checkpoint, and is stored.
capture array --array 0-999 --retries 2 --results final.dat --checkpoints state.chk --to "$store/run1" -- ./simulate {index}
