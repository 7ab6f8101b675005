import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileManifest } from '../../src/model/file/manifest.ts';
import {
  checkpointKey,
  keptKey,
  mayCompress,
  partialKey,
  resultKey,
  segmentKey,
} from '../../src/model/format/keys.ts';
import { textWithSum } from '../../src/model/format/records.ts';
import { findInputs, type InputSearch } from '../../src/restore/inputs.ts';
import { recordedKeys } from '../../src/sidecar/startup/input-search.ts';
import type { Store } from '../../src/store/contract/store.ts';
import { anyPath } from '../support/any-path.ts';
import { memoryStore } from '../support/memory-store.ts';

const NEVER = new AbortController().signal;
const DECLARED = {
  results: ['data/'],
  checkpoints: [],
  inputs: ['data/'],
  companions: [],
  exclude: [],
  newest: undefined,
};
const manifest = compileManifest(DECLARED);
const ours = (index: string): Record<string, string> => ({
  push: randomUUID(),
  capture: '0.1.0',
  index,
  size: '1',
});

/** Results of `indices` under data/, `each` of every index, named by its record but for the last. */
async function filled(indices: number, each: number) {
  const store = memoryStore();
  const put = (key: string, body: string, meta: Record<string, string>) =>
    store.put(key, Buffer.from(body), { meta });
  for (let n = 1; n <= indices; n += 1) {
    const index = String(n);
    const results = Array.from({ length: each }, (_, at) => ({
      path: `data/f${at}`,
      key: `data/f${at}.${index}`,
      push: randomUUID(),
      attempt: 1,
      md5: 'd41d8cd98f00b204e9800998ecf8427e',
      size: 1,
      compressed: false,
      mtimeNs: '1',
      mode: 420,
    }));
    for (const { key } of results) await put(key, 'x', ours(index));
    const at = '2026-11-20T15:10:36.793Z';
    const told = { format: 1, push: 'p', capture: '0.1.0', attempt: 1, at, task: 't', index, startedAt: at };
    const record = { ...told, runToken: 'r', host: 'h', argv: [], results: results.slice(0, -1) };
    const under = `.capture/t/${index}/0001`;
    await put(`${under}-000000.started.json`, textWithSum({ ...told, kind: 'started', seq: 0 }), {});
    await put(`${under}-000003.done.json`, textWithSum({ ...record, kind: 'done', seq: 3 }), {});
  }
  return store;
}

function searching(store: Store): { search: InputSearch; requests: Record<'head' | 'get', number> } {
  const requests = { head: 0, get: 0 };
  const counted: Store = {
    ...store,
    head: (...args) => ((requests.head += 1), store.head(...args)),
    get: (...args) => ((requests.get += 1), store.get(...args)),
  };
  const search = {
    store: counted,
    scope: { taskName: 't', index: '2' },
    manifest,
    root: '/nonexistent',
    known: new Set<string>(),
    run: { id: undefined },
    recorded: () => recordedKeys(counted, NEVER),
    signal: NEVER,
  };
  return { search, requests };
}

describe('inputs below a directory', () => {
  it.each([
    ['few', 3, 10, { head: 31, get: 0 }],
    // The own ones, what no record names, and the user's.
    ['very many', 12, 200, { head: 200 + 11 + 1, get: 12 }],
  ])('among %s results of all indices are the user’s and the index’s own', async (_, indices, each, most) => {
    const store = await filled(indices, each);
    await store.put('data/part.3', Buffer.from('user'), { meta: {} });
    const { search, requests } = searching(store);
    const { sources, leftOut } = await findInputs(search, ['data/']);
    const own = Array.from({ length: each }, (__, at) => `data/f${at}`);
    expect(sources.map(({ path }) => path).toSorted()).toEqual([...own, 'data/part.3'].toSorted());
    expect(leftOut).toBe((indices - 1) * each);
    expect(sources.find(({ path }) => path === 'data/part.3')).toMatchObject({ size: 4, md5: undefined });
    expect(requests.get).toBe(most.get);
    expect(requests.head).toBeLessThanOrEqual(most.head);
  });
});

describe('what capture has stored itself', () => {
  const inputs = compileManifest({ ...DECLARED, results: [], inputs: ['o/'] });

  it('is an input of a directory under the name of its file or not at all, whatever that is called', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(anyPath, { minLength: 1, maxLength: 6 }),
        fc.boolean(),
        async (names, zst) => {
          const store = memoryStore();
          const { search } = searching(store);
          const at = { attempt: 1, generation: 2 };
          const paths = names.map((name) => `o/${name}`).filter((path) => !path.includes('/.capture/'));
          for (const path of paths) {
            const compressed = zst && mayCompress(path);
            for (const key of [
              resultKey(path, search.scope, compressed),
              checkpointKey(path, search.scope, at, compressed),
              segmentKey(path, search.scope, { ...at, segment: 1 }, compressed),
              partialKey(path, search.scope, { attempt: 1, n: 0 }, compressed),
              keptKey(path, search.scope, 1, compressed),
            ])
              store.objects.set(key, { bytes: Buffer.from('x'), meta: ours('2') });
          }
          const { sources } = await findInputs({ ...search, manifest: inputs }, ['o/']);
          expect(paths).toEqual(expect.arrayContaining(sources.map(({ path }) => path)));
        },
      ),
      { numRuns: 300 },
    );
  });

  it('under a shortened key is an input if it is named exactly', async () => {
    const path = `o/${'a'.repeat(201)}`;
    const store = memoryStore();
    const { search } = searching(store);
    const key = resultKey(path, search.scope, false);
    store.objects.set(key, { bytes: Buffer.from('x'), meta: ours('2') });
    const exactly = compileManifest({ ...DECLARED, results: [], inputs: [path] });
    expect((await findInputs({ ...search, manifest: exactly }, [path])).sources).toMatchObject([
      { path, key },
    ]);
    const { sources, leftOut } = await findInputs({ ...search, manifest: inputs }, ['o/']);
    expect([sources, leftOut]).toEqual([[], 1]);
  });
});

describe('an input that is a result in both forms, as an attempt died between them', () => {
  it.each([
    ['own.2', ['own'], 'own.2', 'own.2.zst'],
    ['own.2.zst', ['own'], 'own.2.zst', 'own.2'],
    ['own.2', ['ow*'], 'own.2', 'own.2.zst'],
    ['own.2.zst', ['ow*'], 'own.2.zst', 'own.2'],
  ])('is the one that was put there last: %s for %j', async (_, patterns, newer, older) => {
    const store = memoryStore();
    const bytes = Buffer.from('x');
    store.objects.set(older, { bytes, meta: ours('2'), modifiedMs: 5000 });
    store.objects.set(newer, { bytes, meta: ours('2'), modifiedMs: 6000 });
    const { search } = searching(store);
    const inputs = compileManifest({ ...DECLARED, results: [], inputs: patterns });
    const { sources } = await findInputs({ ...search, manifest: inputs }, patterns);
    expect(sources.map(({ key }) => key)).toEqual([newer]);
  });
});

describe('a listed input that a HEAD does not find', () => {
  const patterns = ['data/'];
  const inputs = compileManifest({ ...DECLARED, results: [], inputs: patterns });

  /** A store in which `key` is listed; `absent` says which of its HEADs find nothing. */
  async function hiding(absent: (nth: number, store: Store) => boolean | Promise<boolean>) {
    const store = memoryStore();
    for (const key of ['data/a', 'data/b', 'data/b.c']) await store.put(key, Buffer.from(key), { meta: {} });
    let heads = 0;
    const head: Store['head'] = async (key, signal) => {
      if (key !== 'data/b') return store.head(key, signal);
      heads += 1;
      return (await absent(heads, store)) ? undefined : store.head(key, signal);
    };
    const { search } = searching({ ...store, head });
    return findInputs({ ...search, manifest: inputs }, patterns);
  }

  it('is there if it is still listed, and the next HEAD finds it', async () => {
    const { sources } = await hiding((nth) => nth === 1);
    expect(sources.map(({ path }) => path)).toEqual(['data/a', 'data/b', 'data/b.c']);
  });

  it('starts no task if it is still listed, and no HEAD finds it', async () => {
    await expect(hiding(() => true)).rejects.toMatchObject({
      status: 69,
      message: 'memory://test lists the input data/b, and says that it does not exist',
      hint: expect.stringContaining('gateway'),
    });
  });

  it('is left out if it was deleted since', async () => {
    const { sources } = await hiding(async (_, store) => {
      await store.delete(['data/b']);
      return true;
    });
    expect(sources.map(({ path }) => path)).toEqual(['data/a', 'data/b.c']);
  });
});

describe('an input that was uploaded by hand', () => {
  const names = ['x.zst', '50%.dat', 'a%20b', 'data/50%/y.zst', 'x.zst.2'];

  it.each([
    ['named exactly', ['x.zst', '50%.dat', 'a%20b', 'data/50%/y.zst']],
    ['by patterns', ['*.zst', '50%.*', 'a*', 'data/50%/']],
  ])('is found under its plain name: %s', async (_, patterns) => {
    const store = memoryStore();
    for (const key of names) await store.put(key, Buffer.from(key), { meta: {} });
    const { search } = searching(store);
    const inputs = compileManifest({ ...DECLARED, results: [], inputs: patterns });
    const { sources, missing } = await findInputs({ ...search, manifest: inputs }, patterns);
    expect(missing).toEqual([]);
    const found = new Map(sources.map(({ path, key }) => [path, key]));
    // The index's own first.
    expect(found.get('x.zst')).toBe('x.zst.2');
    for (const path of ['50%.dat', 'a%20b', 'data/50%/y.zst']) expect(found.get(path)).toBe(path);
  });

  it('keeps the time at which it was put there, and what capture has stored the time of the file', async () => {
    const store = memoryStore();
    const bytes = Buffer.from('x');
    store.objects.set('plain', { bytes, meta: { mtime: '1700000000' }, modifiedMs: 1_795_000_000_000 });
    store.objects.set('own.2', {
      bytes,
      meta: { ...ours('2'), mtime: '1700000000123456789' },
      modifiedMs: 5,
    });
    const { search } = searching(store);
    const patterns = ['plain', 'own'];
    const inputs = compileManifest({ ...DECLARED, results: [], inputs: patterns });
    const { sources } = await findInputs({ ...search, manifest: inputs }, patterns);
    expect(sources.map(({ path, mtimeNs }) => [path, mtimeNs])).toEqual([
      ['plain', '1795000000000000000'],
      ['own', '1700000000123456789'],
    ]);
  });
});

describe('an input that gpg has encrypted', () => {
  const given = (objects: readonly string[], inputs: readonly string[], sealed: Partial<Store['sealed']>) => {
    const inner = memoryStore();
    for (const key of objects) inner.objects.set(key, { bytes: Buffer.from('x'), meta: {} });
    const asked: string[] = [];
    const store: Store = {
      ...inner,
      head: async (key, signal) => {
        asked.push(key);
        return inner.head(key, signal);
      },
      sealed: { endings: [], opensGpg: async () => true, opening: () => undefined, ...sealed },
    };
    const search: InputSearch = {
      store,
      scope: { taskName: 't', index: '7' },
      manifest: compileManifest({ ...DECLARED, results: [], inputs }),
      root: '/nowhere',
      known: new Set(),
      run: undefined,
      recorded: async () => new Set(),
      signal: NEVER,
    };
    const found = async (): Promise<readonly (readonly [string, string])[]> =>
      (await findInputs(search, inputs)).sources.map(({ path, key }) => [path, key] as const);
    return { found, asked };
  };

  it('is found by the name of the file that it holds', async () => {
    const { found } = given(['in.dat.gpg'], ['in.dat'], {});
    expect(await found()).toEqual([['in.dat', 'in.dat.gpg']]);
  });

  it('costs no request if the input is there in plain', async () => {
    const { found, asked } = given(['in.dat', 'in.dat.gpg'], ['in.dat'], {});
    expect(await found()).toEqual([['in.dat', 'in.dat']]);
    expect(asked.filter((key) => key.endsWith('.gpg'))).toEqual([]);
  });

  it('of this very index comes before a plain one, in a run with recipients of gpg', async () => {
    const { found } = given(['in.dat', 'in.dat.7.zst.gpg'], ['in.dat'], { endings: ['.gpg'] });
    expect(await found()).toEqual([['in.dat', 'in.dat.7.zst.gpg']]);
  });

  it('is taken as it is if it is named so, or if there is no secret key', async () => {
    const named = given(['in.dat.gpg'], ['in.dat.gpg'], {});
    expect(await named.found()).toEqual([['in.dat.gpg', 'in.dat.gpg']]);
    for (const inputs of [['*.gpg'], ['*']]) {
      const { found } = given(['in.dat.gpg'], inputs, { opensGpg: async () => false });
      expect(await found()).toEqual([['in.dat.gpg', 'in.dat.gpg']]);
    }
    const pattern = given(['in.dat.gpg'], ['*.gpg'], {});
    expect(await pattern.found()).toEqual([['in.dat.gpg', 'in.dat.gpg']]);
  });

  it('is found by a pattern if there is a secret key', async () => {
    const { found } = given(['in.dat.gpg'], ['*.dat'], {});
    expect(await found()).toEqual([['in.dat', 'in.dat.gpg']]);
  });
});
