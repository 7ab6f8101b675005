// A file server that does not answer: all threads of Node's pool wait (Node, UV_THREADPOOL_SIZE), each in an open(2) of a
// FIFO that nobody writes to, so that no call of the store is answered until the test says so.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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
    limit.abort(reason);
    await expect(asked).rejects.toBe(reason);
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
    limit.abort(reason);
    await expect(asked).rejects.toBe(reason);
  });
});

it('a body is given up while it is read', async () => {
  await put('r.dat', 'text');
  const got = await store.get('r.dat', { signal: limit.signal });
  hang();
  const reading = textOf(got?.body);
  limit.abort(reason);
  await expect(reading).rejects.toBe(reason);
  await answer();
  await expect.poll(open).toEqual([]);
});

it.each(['put', 'delete'])('a %s that was given up does not undo a later put of its key', async (kind) => {
  await put('r.dat', 'old');
  hang();
  const given =
    kind === 'put' ? put('r.dat', 'given up', limit.signal) : store.delete(['r.dat'], limit.signal);
  limit.abort(reason);
  await expect(given).rejects.toBe(reason);
  const later = put('r.dat', 'later');
  await answer();
  await later;
  await expect.poll(open).toEqual([]);
  expect(read('r.dat')).toBe('later');
});
