import { expect, test } from 'vitest';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { endedPush } from '../../../src/sidecar/queue/pusher.ts';

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
    { kind: 'stored', file, fingerprint } as const,
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
])('a push that ended as %j is that event of its file', (sent, event) => {
  expect(endedPush(sent, 100, 150)).toEqual(event);
});
