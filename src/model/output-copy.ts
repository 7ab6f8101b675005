// What a copy of the task's output keeps, so that it cannot fill the disk: its first bytes and its newest. The launcher
// empties what lies between, and the sidecar knows by the same rule what may be empty.

/** The first segment that the sidecar stores. */
export const FIRST_BYTES = 256 * 2 ** 10;
/** More than the limit is kept: the task goes on while the sidecar reads. */
const SLACK_BYTES = 4 * 2 ** 20;

/** From `FIRST_BYTES` up to this offset the file may be empty. `limitBytes`: `--log-output-limit`. */
export function emptyUpTo(sizeBytes: number, limitBytes: number): number {
  return Math.max(FIRST_BYTES, sizeBytes - limitBytes - SLACK_BYTES);
}

/** True if these bytes may have been emptied while they were read. `sizeBytes`: of the file, after that. */
export function mayBeEmpty(
  [fromBytes, toBytes]: readonly [number, number],
  sizeBytes: number,
  limitBytes: number,
): boolean {
  return Math.max(fromBytes, FIRST_BYTES) < Math.min(toBytes, emptyUpTo(sizeBytes, limitBytes));
}
