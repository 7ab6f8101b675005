// What the doctor says of a store, and that it leaves nothing there.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Finding } from '../../src/doctor/finding.ts';
import { examineStore } from '../../src/doctor/store.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/contract/store.ts';
import type { S3Server } from '../s3-server/server.ts';
import type { Operation } from '../s3-server/operations.ts';
import { memoryStore } from '../support/memory-store.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { eachOnItsServer } from '../store/s3/setup.ts';
import { all, levels, of } from './findings.ts';

const GRACE_MS = 27_000;
const MiB = 2 ** 20;

function examined(store: Store, signal = new AbortController().signal): Promise<readonly Finding[]> {
  // One part, and two.
  return all(examineStore({ store, graceMs: GRACE_MS, sizesBytes: [MiB, 9 * MiB], signal }));
}

const CHECKS = [
  'credentials',
  'list',
  'put',
  'create-only put',
  'replacing put',
  'get',
  'copy',
  'clock',
  'delete',
  'throughput',
  'uploads',
];
const ALL_OK = CHECKS.map((check) => `${check} ok`);

describe('a bucket', () => {
  let server: S3Server;
  let store: Store;
  eachOnItsServer(0, (itsServer, itsStore) => {
    server = itsServer;
    store = itsStore;
  });

  const deny = (...operations: Operation[]): void => {
    server.fault = ({ operation }) =>
      operations.includes(operation) ? { kind: 'answer', status: 403, code: 'AccessDenied' } : undefined;
  };

  it('that can do all is in order, and nothing is left in it', async () => {
    const found = await examined(store);
    expect(levels(found)).toEqual(ALL_OK);
    expect(server.keys()).toEqual([]);
    expect(server.pendingUploads()).toEqual([]);
    expect(of(found, 'throughput').says).toMatch(
      /^sends .*\/s, receives .*; .* can be sent in a grace of 27.0 s$/,
    );
  });

  it.each<[Operation, readonly string[], readonly string[]]>([
    ['ListObjectsV2', ['list fail'], []],
    ['PutObject', ['put fail'], CHECKS.slice(CHECKS.indexOf('put') + 1)],
    ['GetObject', ['get fail', 'throughput fail'], []],
    ['CopyObject', ['copy fail'], []],
    ['DeleteObject', ['delete warn'], ['throughput']],
    ['ListMultipartUploads', ['uploads warn'], []],
  ])('that denies %s: %j, each with its mend', async (operation, told, untried) => {
    deny(operation);
    const found = await examined(store);
    const bad = found.filter(({ level }) => level !== 'ok');
    expect(levels(bad)).toEqual(told);
    expect(CHECKS.filter((check) => !found.some((one) => one.check === check))).toEqual(untried);
    for (const { says, mend } of bad) {
      expect(says).toContain(operation);
      expect(mend).toBeTruthy();
    }
  });

  it('that refuses deletions keeps what the doctor names', async () => {
    deny('DeleteObject');
    const { says } = of(await examined(store), 'delete');
    expect(server.keys()).toHaveLength(3);
    for (const key of server.keys()) expect(says).toContain(key.slice('run7/'.length));
  });

  it('that ignores If-None-Match is a failure', async () => {
    server.fault = ({ operation }) => (operation === 'PutObject' ? { kind: 'ignore-condition' } : undefined);
    const found = of(await examined(store), 'create-only put');
    expect(found).toMatchObject({ level: 'fail', mend: expect.stringContaining('--unfenced') as string });
    expect(server.keys()).toEqual([]);
  });

  it.each([
    [3_600_000, 'behind', 3_600_000],
    [-3_600_000, 'ahead of', -3_600_000],
  ])('whose clock is off by %d ms is a warning: we are %s', async (offMs, how, skewMs) => {
    const modified = (): string => new Date(Date.now() + offMs).toUTCString();
    server.fault = ({ operation }) =>
      operation === 'HeadObject'
        ? {
            kind: 'answer',
            status: 200,
            headers: { etag: '"x"', 'last-modified': modified(), 'content-length': '0' },
          }
        : undefined;
    const found = of(await examined(store), 'clock');
    expect(found).toMatchObject({ level: 'warn', mend: expect.stringContaining('timedatectl') as string });
    expect(found.says).toContain(how);
    expect(Math.abs(Number(found.facts?.['skewMs']) - skewMs)).toBeLessThan(10_000);
  });

  it('that does not answer is said once', async () => {
    server.fault = () => ({ kind: 'answer', status: 503, code: 'SlowDown' });
    const found = await examined(store);
    expect(levels(found)).toEqual(['credentials ok', 'list fail']);
  });

  it('is left clean when a signal ends the exam in the middle', async () => {
    const stop = new AbortController();
    server.fault = ({ operation, nth }) => {
      if (operation === 'PutObject' && nth === 3) stop.abort(new Error('stopped'));
      return undefined;
    };
    await expect(examined(store, stop.signal)).rejects.toThrow('stopped');
    expect(server.keys()).toEqual([]);
    expect(server.pendingUploads()).toEqual([]);
  });
});

describe('a directory', () => {
  let dir: TestDir;
  let store: Store;
  beforeEach(async () => {
    dir = testDir();
    store = await openStore({ url: `file://${dir.path}/store`, flags: [], unfenced: false }, { budgetMs: 0 });
  });
  afterEach(async () => {
    await store.close();
    dir.remove();
  });

  it('that can be written is in order, and holds no object afterwards', async () => {
    expect(levels(await examined(store))).toEqual(ALL_OK);
    const files = fs.readdirSync(dir.path, { recursive: true, withFileTypes: true });
    expect(files.filter((entry) => entry.isFile())).toEqual([]);
  });

  it('where a file stands in its place is a failure', async () => {
    dir.write('store', 'a file');
    const found = await examined(store);
    expect(levels(found)).toEqual(['credentials ok', 'list fail']);
    expect(found.at(-1)?.says).toContain('is a file, not a directory');
  });
});

describe('credentials', () => {
  const HOUR_MS = 3_600_000;
  it.each([
    [undefined, 'ok', 'none are needed'],
    [{ expiresMs: undefined, isSession: false, isRenewable: false }, 'ok', 'do not expire'],
    [{ expiresMs: Date.now() + HOUR_MS, isSession: true, isRenewable: true }, 'ok', 'expire in 59 min'],
    [{ expiresMs: Date.now() - HOUR_MS, isSession: true, isRenewable: true }, 'fail', 'have expired'],
    [{ expiresMs: undefined, isSession: true, isRenewable: true }, 'warn', 'read again from the file'],
    [{ expiresMs: undefined, isSession: true, isRenewable: false }, 'warn', 'a variable cannot be renewed'],
  ])('%j are %s', async (access, level, says) => {
    const found = of(await examined({ ...memoryStore(), access: async () => access }), 'credentials');
    expect(found.level).toBe(level);
    expect(found.says).toContain(says);
  });
});

it('a store that gives back other bytes is a failure', async () => {
  const store = memoryStore();
  const changed = { ...store, get: (key: string) => store.get(key.replace('-probe', '-clock')) };
  expect(of(await examined(changed), 'get')).toMatchObject({ level: 'fail' });
});
