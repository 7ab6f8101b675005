// While a set of checkpoints is on its way, its files go before all other checkpoints, and what no set needs is dropped.
import { beforeEach, describe, expect, it } from 'vitest';
import type { FileEvent } from '../../../src/model/file/decide.ts';
import { Files } from '../../../src/sidecar/queue/files.ts';

const NEVER = new AbortController().signal;
const fingerprint = { dev: '1', ino: '1', size: 1, mtimeNs: '1', ctimeNs: '1' };
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let files: Files;
let begun: string[];
let givenUp: string[];
let covered: Map<string, number>;
let ends: Map<string, (event: FileEvent) => void>;

beforeEach(() => {
  begun = [];
  givenUp = [];
  covered = new Map();
  ends = new Map();
  files = new Files({
    closeOf: (lastClose) => lastClose,
    isAfter: ({ atMs }, { ctimeNs }) => BigInt(ctimeNs) / 1_000_000n > atMs,
    push: ({ path }, { signal }) =>
      new Promise((resolve) => {
        begun.push(path);
        ends.set(path, resolve);
        signal.addEventListener('abort', () => {
          givenUp.push(path);
          resolve({ kind: 'failed', why: 'given up', atMs: 0 });
        });
      }),
    rolesOf: (path) => [path.startsWith('r') ? 'result' : 'checkpoint'],
    sizeOf: () => 1e6,
    covers: (path) => covered.get(path),
    catchUp: () => undefined,
    isStill: () => true,
    now: () => 0,
    signal: NEVER,
  });
});

async function stores(path: string): Promise<void> {
  const durable = { fingerprint, md5: '', size: 1 };
  ends.get(path)?.({ kind: 'stored', durable, atMs: 0, tookMs: 0 });
  await turn();
}

describe('while a set is being sent', () => {
  it('only its own checkpoints are begun, and results as usual', async () => {
    files.setFirst(new Set(['a', 'b']));
    for (const path of ['newer', 'a', 'r', 'b', 'newest']) files.closed(path, 'close', 0);
    expect(begun).toEqual(['a', 'r', 'b']);
    await stores('a');
    expect(begun).toEqual(['a', 'r', 'b']);
    files.setFirst(undefined);
    expect(begun).toEqual(['a', 'r', 'b', 'newer', 'newest']);
  });

  it('the other checkpoints begin nevertheless at the end, or with a deadline', () => {
    files.setFirst(new Set());
    files.closed('late', 'close', 0);
    expect(begun).toEqual([]);
    files.hurry();
    expect(begun).toEqual(['late']);
    files.deadline(1000);
    files.closed('later', 'close', 0);
    expect(begun).toEqual(['late', 'later']);
  });
});

describe('a checkpoint that no set needs', () => {
  it('is neither begun nor finished, and nobody waits for it', async () => {
    files.setFirst(new Set(['none']));
    files.closed('waits', 'close', 0);
    files.setFirst(undefined);
    files.closed('also', 'close', 0);
    files.drop((path) => path !== 'also');
    await turn();
    expect(givenUp).toEqual(['waits']);
    expect(files.get('waits', 'checkpoint')).toMatchObject({
      pending: false,
      pushing: false,
      left: undefined,
    });
    expect(files.get('also', 'checkpoint')).toMatchObject({ pushing: true });
    await stores('also');
    await files.drained(NEVER);
  });

  it('is pushed again when it was closed again meanwhile, and when a set needs it', async () => {
    files.closed('a', 'close', 0);
    files.closed('a', 'close', 0);
    files.drop(() => true);
    await turn();
    expect(begun).toEqual(['a', 'a']);
    files.drop(() => true);
    await turn();
    expect(begun).toHaveLength(2);
    expect(files.want('a', 'checkpoint')).toBe(true);
    expect(begun).toHaveLength(3);
  });

  it('stays stored when its push ends before it is given up', async () => {
    files.closed('a', 'close', 0);
    const durable = { fingerprint, md5: '', size: 1 };
    ends.get('a')?.({ kind: 'stored', durable, atMs: 0, tookMs: 0 });
    files.drop(() => true);
    await turn();
    expect(files.get('a', 'checkpoint')?.durable).toEqual(durable);
  });
});

it('a push of an older state covers only the closes of that state: the newest is pushed after it', async () => {
  files.setFirst(new Set());
  files.closed('a', 'close', 0);
  files.closed('a', 'close', 0);
  covered.set('a', 1);
  files.setFirst(new Set(['a']));
  covered.clear();
  await stores('a');
  expect(files.get('a', 'checkpoint')).toMatchObject({ durableCloses: 1, pushing: true });
  expect(begun).toEqual(['a', 'a']);
  await stores('a');
  expect(files.get('a', 'checkpoint')).toMatchObject({ durableCloses: 2, pending: false });
});
