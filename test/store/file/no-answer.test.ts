// A file server that does not answer: all threads of Node's pool wait (Node, UV_THREADPOOL_SIZE), each in an open(2) of a
// FIFO that nobody writes to, so that no call of the store is answered until the test says so.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { newDeferred } from '../../../src/model/waiting.ts';
import { ABSENT, type Store } from '../../../src/store/contract/store.ts';
import { openStore } from '../../../src/store/open.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';
import { newMeta, textOf } from '../contract.ts';

const THREADS = Number(process.env['UV_THREADPOOL_SIZE'] ?? 4);

let dir: TestDir;
let at: string;
let fifo: string;
let store: Store;
let waiting: readonly Promise<fs.promises.FileHandle>[];
let limit: AbortController;
const reason = new Error('no time was left');
beforeEach(async () => {
  dir = testDir();
  at = `${dir.path}/store`;
  fifo = `${dir.path}/fifo`;
  execFileSync('mkfifo', [fifo]);
  waiting = [];
  limit = new AbortController();
  store = await openAt();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await answer();
  await store.close();
  dir.remove();
});

const openAt = (): Promise<Store> => openStore({ url: `file://${at}`, flags: [], unfenced: false });

function hang(): void {
  waiting = Array.from({ length: THREADS }, () => fs.promises.open(fifo));
}

/** The server answers again. */
async function answer(): Promise<void> {
  const writer = fs.openSync(fifo, fs.constants.O_RDWR);
  for (const opened of waiting) await (await opened).close();
  waiting = [];
  fs.closeSync(writer);
}

/** Once the store has been asked. */
async function giveUp(): Promise<void> {
  await new Promise(setImmediate);
  limit.abort(reason);
}

const put = (key: string, text: string, signal?: AbortSignal): Promise<unknown> =>
  store.put(key, Buffer.from(text), { meta: newMeta(), signal });
const read = (key: string): string => fs.readFileSync(`${at}/${key}`, 'utf8');
/** What is open below the store. */
const open = (): readonly string[] =>
  fs.readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = fs.readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(`${at}/`) ? [path] : [];
    } catch {
      return []; // closed since
    }
  });

const ASKED: Readonly<Record<string, (signal: AbortSignal) => Promise<unknown>>> = {
  put: (signal) => put('new.dat', 'x', signal),
  'a create-only put': (signal) =>
    store.put('new.dat', Buffer.from('x'), { meta: newMeta(), precondition: ABSENT, signal }),
  get: (signal) => store.get('r.dat', { signal }),
  'a get that reads ahead': (signal) => store.get('r.dat', { signal, aheadBytes: 10 }),
  head: (signal) => store.head('r.dat', signal),
  list: async (signal) => {
    for await (const _ of store.list('', signal)) expect(_).toBeDefined();
  },
  folders: (signal) => store.folders('', signal),
  delete: (signal) => store.delete(['r.dat'], signal),
  copy: (signal) => store.copy('r.dat', 'new.dat', signal),
  promote: (signal) => store.promote('r.dat', 'new.dat', { signal }),
  sweep: (signal) => store.sweep('', () => true, signal),
  confirm: (signal) => store.confirm(signal),
};

describe.each(Object.entries(ASKED))('%s', (_, ask) => {
  it('is given up at once, changes nothing, and leaves nothing open', async () => {
    await put('r.dat', 'old');
    hang();
    const asked = ask(limit.signal);
    await Promise.all([giveUp(), expect(asked).rejects.toBe(reason)]);
    await answer();
    // What was given up has ended when a later write of the same key has.
    await put('new.dat', 'later');
    await put('r.dat', 'later');
    expect([read('new.dat'), read('r.dat')]).toEqual(['later', 'later']);
    await expect.poll(open).toEqual([]);
    expect(fs.readdirSync(`${at}/.capture-store/tmp`)).toEqual([]);
  });

  it('as the first of a store is given up, too', async () => {
    const first = await openAt();
    hang();
    [store] = [first, await store.close()];
    const asked = ask(limit.signal);
    await Promise.all([giveUp(), expect(asked).rejects.toBe(reason)]);
  });
});

it('a body is given up while it is read', async () => {
  await put('r.dat', 'text');
  const got = await store.get('r.dat', { signal: limit.signal });
  hang();
  const reading = textOf(got?.body);
  await Promise.all([giveUp(), expect(reading).rejects.toBe(reason)]);
  await answer();
  await expect.poll(open).toEqual([]);
});

/** The call is made, `after` so many others, when the returned function is called. Resolves `begun` when it is due. */
function hold(name: 'lstat' | 'rename' | 'unlink', after: number): { begun: Promise<void>; go(): void } {
  const real = fs.promises[name] as (...args: readonly unknown[]) => Promise<never>;
  const [begun, free] = [newDeferred<void>(), newDeferred<void>()];
  let calls = 0;
  vi.spyOn(fs.promises, name).mockImplementation(async (...args: readonly unknown[]) => {
    calls += 1;
    if (calls === after + 1) {
      begun.resolve();
      await free.promise;
    }
    return real(...args);
  });
  return { begun: begun.promise, go: free.resolve };
}

const GIVEN: Readonly<Record<string, () => Promise<unknown>>> = {
  // The first rename is that of its metadata.
  put: () => put('d/r.dat', 'given up', limit.signal),
  delete: () => store.delete(['d/r.dat'], limit.signal),
};

it.each([
  ['put', 'rename', 1],
  ['delete', 'unlink', 0],
] as const)(
  'a %s that was given up in its last step takes place before a later put',
  async (kind, name, after) => {
    await put('d/r.dat', 'old');
    const { begun, go } = hold(name, after);
    const given = GIVEN[kind]?.();
    const rejected = expect(given).rejects.toBe(reason);
    await begun;
    limit.abort(reason);
    await rejected;
    const later = put('d/r.dat', 'later');
    await new Promise(setImmediate);
    go();
    await later;
    await expect.poll(open).toEqual([]);
    expect(read('d/r.dat')).toBe('later');
  },
);

it.each([
  ['put', 'rename', 0],
  ['delete', 'lstat', 0],
] as const)('a %s that was given up earlier changes nothing any more', async (kind, name, after) => {
  await put('d/r.dat', 'old');
  const { begun, go } = hold(name, after);
  const rejected = expect(GIVEN[kind]?.()).rejects.toBe(reason);
  await begun;
  limit.abort(reason);
  await rejected;
  go();
  await expect.poll(open).toEqual([]);
  expect(read('d/r.dat')).toBe('old');
});
