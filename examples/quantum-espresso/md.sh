#!/bin/sh
# md.sh [STEPS]. pw.x counts nstep from the restart: so this subtracts the steps that are done.
all=${1:-200} mode=from_scratch done=0
if [ -e out/si.md ]; then
  mode=restart
  read -r _ done _ < out/si.md
  echo "resumes after step $done"
fi
[ "$done" -lt "$all" ] || exit 0
sed "s/@MODE@/$mode/; s/@STEPS@/$((all - done))/" si.template > si.in
exec pw.x -in si.in > "pw.${CAPTURED_ATTEMPT:-1}.out"
