// A copy in a loop beside the task, and a last one after its end: `rclone copy` and `aws s3 sync`.
import { RUN_TASK, WANTED } from './shell.mjs';

/** As rclone's own page on S3 says: no request for the time of each object. */
const RCLONE = `rclone -q copy --update --use-server-modtime ${WANTED.map((name) => `--include '${name}'`).join(' ')} . "s3:$BUCKET/$PREFIX"`;
const AWS = `aws s3 sync --quiet --exclude '*' ${WANTED.map((name) => `--include '${name}'`).join(' ')} . "s3://$BUCKET/$PREFIX"`;

export const rcloneLoop = { name: 'rclone copy, in a loop', needs: ['rclone'], ...loop(RCLONE) };
export const awsLoop = { name: 'aws s3 sync, in a loop', needs: ['aws'], heavy: true, ...loop(AWS) };
/** As users write it: the trap lets the task end, then copies all that is there. */
export const rcloneAtEnd = { name: 'rclone copy, at the end', needs: ['rclone'], ...atEnd(RCLONE) };
export const awsAtEnd = { name: 'aws s3 sync, at the end', needs: ['aws'], ...atEnd(AWS) };

function loop(copy) {
  return {
    script: `
  (while [ ! -e "$STATE/stop" ]; do ${copy}; sleep 1; done) & loop=$!
  ${RUN_TASK}
  touch "$STATE/stop"; wait $loop
  ${copy}
  exit $status`,
    nameOf: (key) => key,
  };
}

function atEnd(copy) {
  return { script: `${RUN_TASK}\n${copy}\nexit $status`, nameOf: (key) => key };
}
