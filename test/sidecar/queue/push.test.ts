import { expect, test } from 'vitest';
import { newFileState } from '../../../src/model/file/file-state.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { endedPush, type PushParts, pusherOf } from '../../../src/sidecar/queue/push.ts';
import type { PushHandle } from '../../../src/sidecar/queue/turns.ts';

const fingerprint = { dev: '1', ino: '2', size: 3, mtimeNs: '4', ctimeNs: '5', mode: 0o644, links: 1 };
const file: StoredFile = {
  path: 'a.dat',
  kind: 'file',
  key: 'a.dat.1.zst',
  attempt: 1,
  push: 'p',
  size: 3,
  storedSize: 2,
  md5: 'm',
  compressed: true,
  mtimeNs: '4',
  mode: 0o644,
};

test.each([
  [
    { kind: 'stored', file, fingerprint, tag: '1' } as const,
    { kind: 'stored', durable: { fingerprint, md5: 'm', size: 3 }, atMs: 150, tookMs: 50 },
  ],
  [
    { kind: 'unchanged', md5: 'm', fingerprint } as const,
    { kind: 'unchanged', durable: { fingerprint, md5: 'm', size: 3 } },
  ],
  [{ kind: 'torn' } as const, { kind: 'torn', atMs: 150 }],
  [{ kind: 'gone' } as const, { kind: 'gone' }],
  [{ kind: 'has-writer' } as const, { kind: 'has-writer' }],
  [{ kind: 'refused', why: 'a link' } as const, { kind: 'refused', why: 'a link' }],
])('a push that ended as %j causes that event of its file', (sent, event) => {
  expect(endedPush(sent, { startedMs: 100, nowMs: 150 })).toEqual(event);
});

const HANDLE: PushHandle = {
  spoolFirst: false,
  signal: new AbortController().signal,
  onSent: () => undefined,
  closeOf: () => undefined,
};

test.each(['checkpoint', 'result'] as const)(
  'a push of a %s that throws is reported at the first try, and retried',
  async (role) => {
    const told: string[] = [];
    const gone = async (): Promise<never> => Promise.reject(new Error('the disk is gone'));
    const push = pusherOf({
      context: {
        attempt: 1,
        scope: { taskName: 't', index: '1' },
        root: { fd: -1, path: '/nowhere' },
        store: { head: gone },
        log: { warn: (text: string) => told.push(text) },
        outage: { isKnown: false },
        progress: {
          file: () => ({ moved: () => undefined, done: () => undefined, failed: () => undefined }),
        },
        signal: new AbortController().signal,
        now: () => 7,
      } as unknown as PushParts['context'],
      checkpoints: { push: gone },
      results: { push: gone },
    });
    const fileState = newFileState('a.dat', role);
    expect(await push(fileState, HANDLE)).toEqual({ kind: 'failed', why: 'the disk is gone', atMs: 7 });
    await push({ ...fileState, failedTries: 1 }, HANDLE);
    expect(told).toEqual(['a.dat is not stored yet, and is tried again: the disk is gone']);
  },
);
