// What the scripts of all rivals share.

/** Runs the task that is in "$@", passes SIGTERM on to it, and leaves its exit status in `status`. */
export const RUN_TASK = `
  trap 'kill -TERM $task 2>/dev/null' TERM
  "$@" & task=$!
  wait $task; status=$?
  while kill -0 $task 2>/dev/null; do wait $task; status=$?; done
`;

/** The files that the tasks of the bench want to keep. */
export const WANTED = ['*.dat', 'k.chk'];

/** A key of an archiver: the name, perhaps with the ending of zstd. */
export function withoutZst(key) {
  return key.replace(/\.zst$/, '');
}
