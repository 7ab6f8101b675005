// Object keys of the task's stored output (--log-output). Pure. They stand apart from the records, which every start
// lists, and in the order of what was written: the key of a segment says where in the stream it begins.
import { escapePath, type KeyScope, TASKS_PREFIX } from './keys.ts';

/** `output`: stdout and stderr are the same file. */
export type OutputStream = 'stdout' | 'stderr' | 'output';

export interface OutputSegment {
  readonly attempt: number;
  readonly stream: OutputStream;
  /** Where it begins, in bytes of the stream since the attempt began. */
  readonly first: number;
  readonly compressed: boolean;
}

/** The name of a task has no tilde: no task's folder is called so. */
const OUTPUT_PREFIX = `${TASKS_PREFIX}~output/`;
const KEY = /\/(\d{4,})\.(stdout|stderr|output)\.(\d{12,})(\.zst)?$/;

/** `.capture/~output/<task name>/<index>/` */
export function outputPrefix({ taskName, index }: KeyScope): string {
  return `${OUTPUT_PREFIX}${escapePath(taskName)}/${index}/`;
}

/** `<attempt>.<stream>.`: the beginning of the keys of one attempt's stream. */
export function streamPrefix(
  scope: KeyScope,
  { attempt, stream }: Pick<OutputSegment, 'attempt' | 'stream'>,
): string {
  return `${outputPrefix(scope)}${String(attempt).padStart(4, '0')}.${stream}.`;
}

/** `<attempt>.<stream>.<first byte>[.zst]`, zero-padded so that key order is the order of the stream. */
export function outputKey(scope: KeyScope, segment: OutputSegment): string {
  const first = String(segment.first).padStart(12, '0');
  return `${streamPrefix(scope, segment)}${first}${segment.compressed ? '.zst' : ''}`;
}

/** What a key says; undefined when it is no segment's. */
export function parseOutputKey(key: string): OutputSegment | undefined {
  const [, attempt, stream, first, zst] = KEY.exec(key) ?? [];
  if (stream === undefined || !key.startsWith(OUTPUT_PREFIX)) return undefined;
  return {
    attempt: Number(attempt),
    stream: stream as OutputStream,
    first: Number(first),
    compressed: zst !== undefined,
  };
}
