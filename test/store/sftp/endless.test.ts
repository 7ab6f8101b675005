// What others have put on a server may have no end, and a server may say so: neither a listing nor a sweep goes on with it.
import v8 from 'node:v8';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ListedObject } from '../../../src/store/contract/store.ts';
import type { SftpConnection } from '../../../src/store/sftp/connection.ts';
import { listObjects } from '../../../src/store/sftp/list.ts';
import { newKnown, type Place } from '../../../src/store/sftp/place.ts';
import { type Entry, Refused, type Session, STATUS } from '../../../src/store/sftp/session.ts';
import { sweep } from '../../../src/store/sftp/sweep.ts';

const DIRECTORY = '/data/melt';
const TEMPORARIES = `${DIRECTORY}/.capture-store/tmp`;
const MOST_PAGES = 3000;

function entry(name: string, mode: number): Entry {
  return { name, mode, sizeBytes: 0, mtimeS: 1_700_000_000 };
}
const file = (name: string): Entry => entry(name, 0o100_600);
const folder = (name: string): Entry => entry(name, 0o040_700);
const names = (count: number, of: (at: number) => Entry): readonly Entry[] =>
  Array.from({ length: count }, (_, at) => of(at));

/** The pages of a folder; undefined if it is not there. */
type Pages = (path: string) => Iterable<readonly Entry[]> | undefined;

interface Told {
  readonly place: Place;
  /** By path. */
  readonly notes: Map<string, string>;
  readonly removed: string[];
}

/** A store on a server that tells these names. */
function storeOf(pagesOf: Pages): Told {
  const notes = new Map<string, string>();
  const removed: string[] = [];
  const missing = (): Refused => new Refused('any', STATUS.missing, 'No such file');
  const session = {
    stat: async (path: string) => entry(path, 0o040_700),
    entries: async function* entries(path: string) {
      const pages = pagesOf(path);
      if (pages === undefined) throw missing();
      for (const page of pages) yield page;
    },
    open: async (path: string) => {
      if (path.endsWith('/locked.meta')) throw new Refused('open', STATUS.denied, 'Permission denied');
      if (!notes.has(path)) throw missing();
      return Buffer.from(path);
    },
    read: async (handle: Buffer, into: Buffer, at: number) =>
      Buffer.from(notes.get(handle.toString()) ?? '').copy(into, 0, at),
    close: async () => undefined,
    remove: async (path: string) => {
      removed.push(path.slice(TEMPORARIES.length + 1));
    },
  } as unknown as Session;
  const place: Place = {
    connection: { session: async () => session, close: () => undefined } as unknown as SftpConnection,
    directory: DIRECTORY,
    url: 'sftp://ada@lab/data/melt',
    budgetMs: 0,
    onTry: undefined,
    known: newKnown(DIRECTORY),
    inTurn: (() => undefined) as never,
    givenUp: new Map(),
  };
  return { place, notes, removed };
}

async function keysOf(pagesOf: Pages, prefix = ''): Promise<readonly string[]> {
  const keys: string[] = [];
  const listing: AsyncIterable<ListedObject> = listObjects(storeOf(pagesOf).place, prefix, undefined);
  for await (const { key } of listing) keys.push(key);
  return keys;
}

function endless(what: string): object {
  return {
    kind: 'refused',
    message: expect.stringContaining(what),
    hint: 'if nobody has made so many, what answers there lists without end: check the host and the port',
  };
}

describe('a listing', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it('of 10,000 indices with ten records each, beside results of others, has them all', async () => {
    const tasks = `${DIRECTORY}/.capture/t`;
    const keys = await keysOf((path) => {
      if (path === tasks) return [names(10_000, (at) => folder(`${at}`))];
      return [names(10, (at) => file(`0001-00000${at}.done.json`))];
    }, '.capture/t/');
    expect(keys).toHaveLength(100_000);
  });

  it('of one index among two million results of others finds its own', async () => {
    const others = names(10_000, (at) => file(`r.${at}`));
    const pages = [...Array.from({ length: 200 }, () => others), [file('s.3.~1~')]];
    expect(await keysOf(() => pages, 's.3.~')).toEqual(['s.3.~1~']);
  });

  it('of a key with as many folders as a key of capture can have finds it', async () => {
    const last = `${DIRECTORY}${'/d'.repeat(360)}`;
    const keys = await keysOf((path) => [[path === last ? file('r') : folder('d')]]);
    expect(keys).toEqual([`${'d/'.repeat(360)}r`]);
  });

  it('of folders in folders without end is an error', async () => {
    await expect(keysOf(() => [[folder('d')]])).rejects.toMatchObject(
      endless('list sftp://ada@lab/data/melt/: more than 400 folders in one another'),
    );
  });

  it('of names without end that nobody has asked for is an error', async () => {
    const page = names(10_000, (at) => file(`r.${at}`));
    function* pages() {
      for (let left = 2 * MOST_PAGES; left > 0; left -= 1) yield page;
    }
    await expect(keysOf(pages, 's.')).rejects.toMatchObject(
      endless('more than 5000000 names that capture did not ask for'),
    );
  });

  it('of answers without names is an error', async () => {
    await expect(keysOf(() => Array.from({ length: MOST_PAGES }, () => []))).rejects.toMatchObject(
      endless('more than 100 answers in a row without a name'),
    );
  });

  it('of folders without objects, in a row without end, is an error', async () => {
    const thousand = names(1100, (at) => folder(`${at}`));
    const pagesOf: Pages = (path) => (path.split('/').length < 5 ? [thousand] : []);
    await expect(keysOf(pagesOf)).rejects.toMatchObject(
      endless('more than 1000000 folders in a row without an object'),
    );
  });

  it('of folders in folders, each with many names, may take no more room than one folder', async () => {
    const heap = v8.getHeapStatistics();
    vi.spyOn(v8, 'getHeapStatistics').mockReturnValue({ ...heap, heap_size_limit: 2 ** 23 });
    const page = [folder('d'), ...names(10_000, (at) => file(`r.${at}`))];
    const nested: Pages = (path) => (path.length > DIRECTORY.length + 10 ? [] : [page]);
    await expect(keysOf(nested)).rejects.toThrow(/there are more than \d+, which fit into memory/);
    const folders = names(200, (at) => folder(`${at}`));
    const beside: Pages = (path) => [path === DIRECTORY ? folders : page.slice(1, 1000)];
    expect(await keysOf(beside)).toHaveLength(200 * 999);
  });
});

describe('a sweep', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['hrtime'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('of names without end stops after ten seconds, and removes what it has found', async () => {
    let told = 0;
    const { place, notes, removed } = storeOf(function* pages() {
      yield names(10, (at) => file(`own-${at}${at % 2 === 0 ? '' : '.meta'}`));
      for (; told < MOST_PAGES; told += 1) {
        vi.advanceTimersByTime(90);
        yield names(100, (at) => file(`n${told}-${at}`));
      }
    });
    notes.set(`${TEMPORARIES}/own-1.meta`, JSON.stringify({ key: 'mine', meta: {} }));
    notes.set(`${TEMPORARIES}/own-3.meta`, JSON.stringify({ key: 'of another', meta: {} }));
    expect(await sweep(place, '', (key) => key === 'mine', undefined)).toBe(true);
    expect(told).toBeLessThan(120);
    // The note stays: a part of it may have another name, which was not seen.
    expect(removed).toEqual(['own-1']);
    // And the next one, of another prefix, does not take as long once more.
    await sweep(place, '', () => false, undefined);
    expect(told).toBeLessThan(120);
  });

  it('removes all of many killed puts among many names, and what of them was renamed', async () => {
    const { place, notes, removed } = storeOf(function* pages() {
      yield names(4000, (at) => file(`${at}.meta`));
      yield names(100_000, (at) => file(`other-${at}`));
      yield names(4000, (at) => file(`${at}`));
      yield [file('7.1'), file('7.2'), file('other.1')];
    });
    for (let at = 0; at < 4000; at += 1)
      notes.set(`${TEMPORARIES}/${at}.meta`, JSON.stringify({ key: `${at % 2}`, meta: {} }));
    await sweep(place, '', (key) => key === '1', undefined);
    expect(removed).toHaveLength(2000 * 2 + 2);
    expect(removed.filter((name) => name.startsWith('7.'))).toEqual(['7.1', '7.2', '7.meta']);
  });

  it('leaves notes of others that it may not read, and goes on', async () => {
    const { place, notes, removed } = storeOf(() => [[file('locked.meta'), file('own.meta')]]);
    notes.set(`${TEMPORARIES}/own.meta`, JSON.stringify({ key: 'mine', meta: {} }));
    await sweep(place, '', () => true, undefined);
    expect(removed).toEqual(['own', 'own.meta']);
  });
});
