// The classic archiver: a shell loop on inotifywait, a process in the background for each close, and the file is deleted
// when it is copied. It has no queue, no lock for each file, and no proof; kinder than most, it waits for its copies.
import { RUN_TASK, withoutZst } from './shell.mjs';

const RCAT = 'zstd -q -c -- "$1" | rclone -q rcat "s3:$BUCKET/$PREFIX/$1.zst"';
const AWS = 'aws s3 cp --quiet -- "$1" "s3://$BUCKET/$PREFIX/$1"';

export const archiver = {
  name: 'inotifywait, zstd to rclone rcat',
  needs: ['inotifywait', 'zstd', 'rclone'],
  ...archiverWith(RCAT),
};
export const awsArchiver = {
  name: 'inotifywait, aws s3 cp',
  needs: ['inotifywait', 'aws'],
  ...archiverWith(AWS),
};

function archiverWith(copy) {
  return {
    heavy: true,
    script: `
  copy() { ${copy}; }
  mkfifo "$STATE/events"
  inotifywait -q -m -e close_write -e moved_to --format %f . >"$STATE/events" & watcher=$!
  (
    while read -r file; do
      case $file in *.dat | k.chk) (copy "$file" && rm -f -- "$file") & ;; esac
    done
    wait
  ) <"$STATE/events" & archiver=$!
  sleep 0.5
  ${RUN_TASK}
  sleep 0.5
  kill $watcher; wait $archiver
  exit $status`,
    nameOf: withoutZst,
  };
}
