// Files whose pushes the tests end themselves.
import type { FileEvent } from '../../../src/model/file/decide.ts';
import { Files, type FilesOptions } from '../../../src/sidecar/queue/files.ts';

export const fingerprint = { dev: '1', ino: '1', size: 1, mtimeNs: '1', ctimeNs: '1' };

/** A push that took so long that the next one would have to wait for an hour, but for a flush. */
export const stored: FileEvent = {
  kind: 'stored',
  durable: {
    fingerprint,
    md5: 'x',
    size: 1,
  },
  atMs: 0,
  tookMs: 3_600_000,
};

export function filesThat(
  push: FilesOptions['push'],
  signal = new AbortController().signal,
  more: Partial<FilesOptions> = {},
): Files {
  return new Files({
    closeOf: (lastClose) => lastClose,
    isAfter: ({ atMs }, { ctimeNs }) => BigInt(ctimeNs) / 1_000_000n > atMs,
    push,
    rolesOf: () => ['result'],
    sizeOf: () => 0,
    catchUp: () => undefined,
    isStill: () => true,
    now: () => 0,
    signal,
    ...more,
  });
}
