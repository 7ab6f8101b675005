// Object keys of the task's stored output (--log-output). Pure. They have a prefix of their own, because every start
// lists the records. They sort in the order of the output: the key of a segment contains its offset in the stream.
import { ENDINGS, escapePath, isCompressedKey, type KeyScope, TASKS_PREFIX } from './keys.ts';

/** `output`: stdout and stderr are the same file. */
export type OutputStream = 'stdout' | 'stderr' | 'output';

export interface OutputSegment {
  readonly attempt: number;
  readonly stream: OutputStream;
  /** Its offset in the stream, in bytes since the attempt began. */
  readonly first: number;
  readonly compressed: boolean;
}

/** A task name has no tilde, so no task's folder has this name. */
const OUTPUT_PREFIX = `${TASKS_PREFIX}~output/`;
const KEY = new RegExp(String.raw`/(\d{4,})\.(stdout|stderr|output)\.(\d{12,})${ENDINGS}$`);

/** `.capture/~output/<task name>/<index>/` */
export function outputPrefix({ taskName, index }: KeyScope): string {
  return `${OUTPUT_PREFIX}${escapePath(taskName)}/${index}/`;
}

/** `<attempt>.<stream>.`: the prefix of the keys of one attempt's stream. */
export function streamPrefix(
  scope: KeyScope,
  { attempt, stream }: Pick<OutputSegment, 'attempt' | 'stream'>,
): string {
  return `${outputPrefix(scope)}${String(attempt).padStart(4, '0')}.${stream}.`;
}

/** `<attempt>.<stream>.<first byte>[.zst]`, zero-padded so that key order is stream order. */
export function outputKey(scope: KeyScope, segment: OutputSegment): string {
  const first = String(segment.first).padStart(12, '0');
  return `${streamPrefix(scope, segment)}${first}${segment.compressed ? '.zst' : ''}${scope.sealed ?? ''}`;
}

/** The parts of a segment's key; undefined for any other key. */
export function parseOutputKey(key: string): OutputSegment | undefined {
  const [, attempt, stream, first] = KEY.exec(key) ?? [];
  if (stream === undefined || !key.startsWith(OUTPUT_PREFIX)) return undefined;
  return {
    attempt: Number(attempt),
    stream: stream as OutputStream,
    first: Number(first),
    compressed: isCompressedKey(key),
  };
}
