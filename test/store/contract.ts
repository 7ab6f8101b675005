// The contract of src/store/contract/store.ts as tests. Every driver runs them; a store that passes may be used.
import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  ABSENT,
  exactly,
  type ObjectHead,
  type ObjectMeta,
  type OnTry,
  type Precondition,
  type PutOutcome,
  type Store,
  type StoreUse,
} from '../../src/store/contract/store.ts';

const MIB = 2 ** 20;

export interface OpenedStore {
  readonly store: Store;
  readonly cleanup: () => Promise<void>;
}

export interface ContractOptions {
  /** False: of two create-only bodies in parts both may be stored (Ceph RGW 16); default true. */
  readonly uploadsCreateOnly?: boolean;
  /** True: interrupted puts leave nothing that can be found, so a sweep sends no request. */
  readonly sweepsNothing?: boolean;
}

export function storeContract(
  name: string,
  open: (onTry: OnTry) => Promise<OpenedStore>,
  options: ContractOptions = {},
): void {
  describe(`${name} keeps the contract of a store`, () => {
    let opened: OpenedStore;
    let store: Store;
    const tried: StoreUse[] = [];
    beforeAll(async () => {
      opened = await open((use) => tried.push(use));
      store = opened.store;
    });
    afterAll(() => opened?.cleanup());
    const put = (key: string, text: string, precondition?: Precondition): Promise<PutOutcome['kind']> =>
      kindOf(store.put(key, Buffer.from(text), { meta: newMeta(), precondition }));

    it('returns the bytes and metadata of an object', async () => {
      const meta = { ...newMeta(), size: '17', mtime: '1700000000123456789', mode: '644' };
      expect(await kindOf(store.put('plain/r.dat.3', Buffer.from('seventeen bytes !'), { meta }))).toBe(
        'stored',
      );
      expect(await toldOf(store, 'plain/r.dat.3')).toEqual({
        key: 'plain/r.dat.3',
        tag: expect.any(String),
        sizeBytes: 17,
        meta,
        modifiedMs: expect.any(Number),
      });
      const got = await store.get('plain/r.dat.3');
      expect(got).toMatchObject({ key: 'plain/r.dat.3', sizeBytes: 17, meta });
      expect(await textOf(got?.body)).toBe('seventeen bytes !');
    });

    it('stores an empty object, given as bytes or as a body without chunks', async () => {
      await put('empty/bytes', '');
      await store.put('empty/chunks', chunks([]), { meta: newMeta() });
      expect((await store.head('empty/bytes'))?.sizeBytes).toBe(0);
      expect(await textOf((await store.get('empty/chunks'))?.body)).toBe('');
    });

    it.each([
      ['one small chunk', [1000]],
      ['one whole part', [5 * MIB]],
      ['whole parts and a rest', [5 * MIB, 5 * MIB, 5 * MIB, 1234]],
      ['parts that grow', [5 * MIB, 6 * MIB, 7 * MIB]],
    ])('joins a body of %s', async (_, sizes) => {
      const parts = sizes.map((size, at) => Buffer.alloc(size, at + 1));
      const meta = newMeta();
      expect(await kindOf(store.put('joined', chunks(parts), { meta }))).toBe('stored');
      expect((await store.head('joined'))?.meta).toEqual(meta);
      expect(await md5Of((await store.get('joined'))?.body)).toBe(md5(Buffer.concat(parts)));
    });

    it.each([
      ['equal parts and a rest', [5 * MIB, 5 * MIB, 5 * MIB, 5 * MIB, 1234]],
      ['equal parts and one byte', [5 * MIB, 5 * MIB, 1]],
      ['parts that grow', [5 * MIB, 6 * MIB, 12 * MIB, 7 * MIB]],
    ])('no longer needs a chunk that it has released: a body of %s', async (_, sizes) => {
      const md5 = createHash('md5');
      let released = 0;
      async function* body(): AsyncGenerator<Uint8Array> {
        for (const [at, size] of sizes.entries()) {
          const part = Buffer.alloc(size, `part ${at}`);
          md5.update(part);
          yield part;
        }
      }
      const release = (chunk: Uint8Array): void => {
        released += 1;
        chunk.fill(0);
      };
      await store.put('released', body(), { meta: newMeta(), release });
      expect(await md5Of((await store.get('released'))?.body)).toBe(md5.digest('hex'));
      // One is on its way and one is the last.
      expect(released).toBeGreaterThanOrEqual(sizes.length - 2);
    });

    it('replaces an object together with its metadata', async () => {
      await store.put('replaced', Buffer.from('old'), { meta: { ...newMeta(), md5: 'of old' } });
      const meta = newMeta();
      await store.put('replaced', Buffer.from('newer'), { meta });
      expect(await toldOf(store, 'replaced')).toEqual({
        key: 'replaced',
        tag: expect.any(String),
        sizeBytes: 5,
        meta,
        modifiedMs: expect.any(Number),
      });
    });

    it('shows readers one whole object while it is replaced', async () => {
      const bodies = ['a', 'b'].map((letter) => Buffer.alloc(256 * 1024, letter));
      const write = async (at: number): Promise<unknown> =>
        store.put('swapped', bodies[at % 2] ?? Buffer.alloc(0), {
          meta: { ...newMeta(), letter: 'ab'[at % 2] ?? '' },
        });
      await write(0);
      const writer = (async () => {
        for (let round = 1; round < 20; round += 1) await write(round);
        return 'written';
      })();
      while ((await Promise.race([writer, Promise.resolve()])) !== 'written') {
        const got = await store.get('swapped');
        const bytes = await bytesOf(got?.body);
        expect(bytes.length).toBe(256 * 1024);
        expect(new Set(bytes)).toEqual(new Set([got?.meta['letter']?.charCodeAt(0)]));
      }
    });

    it('creates only if the key is free', async () => {
      const key = fresh('claimed');
      expect(await put(key, 'mine', ABSENT)).toBe('stored');
      expect(await put(key, 'yours', ABSENT)).toBe('exists');
      expect(await textOf((await store.get(key))?.body)).toBe('mine');
    });

    it('lets exactly one of eight creators win', async () => {
      const key = fresh('raced');
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, (_, at) => put(key, `creator ${at}`, ABSENT)),
      );
      expect(outcomes.toSorted()).toEqual([...Array<string>(7).fill('exists'), 'stored']);
      const winner = outcomes.indexOf('stored');
      expect(await textOf((await store.get(key))?.body)).toBe(`creator ${winner}`);
    });

    it('counts a create-only put as stored if it finds its own object: the answer to the first try was lost', async () => {
      const meta = newMeta();
      for (let tries = 0; tries < 2; tries += 1)
        expect(await kindOf(store.put('own', Buffer.from('ours'), { meta, precondition: ABSENT }))).toBe(
          'stored',
        );
    });

    it.each([
      ['bytes', (fill: number) => Buffer.alloc(100, fill)],
      ['a body in parts', (fill: number) => chunks([Buffer.alloc(5 * MIB, fill), Buffer.alloc(10, fill)])],
    ])('replaces with %s exactly the intended state', async (_, bodyOf) => {
      const key = fresh('state');
      const replace = (fill: number, precondition: Precondition): Promise<PutOutcome> =>
        store.put(key, bodyOf(fill), { meta: newMeta(), precondition });
      const first = exactlyStored(await replace(1, ABSENT));
      const second = exactlyStored(await replace(2, first));
      expect(second).toEqual(exactly(await store.head(key)));
      expect(second).not.toEqual(first);
      expect(await replace(3, first)).toEqual({ kind: 'replaced-meanwhile' });
      expect((await bytesOf((await store.get(key))?.body))[0]).toBe(2);
      await store.delete([key]);
      expect(await replace(3, second)).toEqual({ kind: 'replaced-meanwhile' });
      expect(await store.head(key)).toBeUndefined();
      expect(typeof (await store.replacesAtomically())).toBe('boolean');
    });

    it('counts a replacing put as stored if it finds its own object: the answer to the first try was lost', async () => {
      const key = fresh('own-state');
      await put(key, 'older');
      const precondition = exactly(await store.head(key));
      const meta = newMeta();
      for (let tries = 0; tries < 2; tries += 1)
        expect(await kindOf(store.put(key, Buffer.from('ours'), { meta, precondition }))).toBe('stored');
    });

    it('replaces a state by the same bytes, and again', async () => {
      const key = fresh('same');
      let precondition: Precondition = ABSENT;
      for (let round = 0; round < 3; round += 1)
        precondition = exactlyStored(
          await store.put(key, Buffer.from('same'), { meta: newMeta(), precondition }),
        );
      expect(precondition).toEqual(exactly(await store.head(key)));
    });

    it('promotes an object: bytes and metadata under the new name, none under the old one', async () => {
      const [from, to] = [fresh('aside'), fresh('good')];
      const meta = { ...newMeta(), md5: 'abc' };
      await store.put(from, Buffer.from('bytes'), { meta });
      const promoted = await store.promote(from, to, { precondition: ABSENT });
      expect(await store.head(to)).toMatchObject({ meta, sizeBytes: 5 });
      expect(exactlyStored(promoted)).toEqual(exactly(await store.head(to)));
      expect(await textOf((await store.get(to))?.body)).toBe('bytes');
      expect(await store.head(from)).toBeUndefined();
      await expect(store.promote(from, to)).rejects.toMatchObject({ kind: 'missing' });
    });

    it('promotes an object that only its put has reported', async () => {
      const [from, to] = [fresh('aside'), fresh('good')];
      const push = fresh('push');
      const meta = { ...newMeta(), push };
      const stored = await store.put(from, Buffer.from('bytes'), { meta });
      const tag = stored.kind === 'stored' ? stored.tag : '';
      const source = { tag, push, sizeBytes: 5 };
      expect(await kindOf(store.promote(from, to, { precondition: ABSENT, source }))).toBe('stored');
      expect(await store.head(to)).toMatchObject({ meta, sizeBytes: 5 });
      expect(await store.head(from)).toBeUndefined();
      const gone = { ...source, push: 'of another' };
      await expect(
        store.promote(from, fresh('other'), { precondition: ABSENT, source: gone }),
      ).rejects.toMatchObject({
        kind: 'missing',
      });
    });

    it.each<[string, (to: string) => Promise<Precondition>, string]>([
      ['only to create', async () => ABSENT, 'exists'],
      ['over a state that is gone', async () => ({ kind: 'is', tag: '"1"' }), 'replaced-meanwhile'],
      ['over the state that stands there', async (to) => exactly(await store.head(to)), 'stored'],
      ['over anything', async () => ({ kind: 'any' }), 'stored'],
    ])('promotes %s, or leaves both unchanged', async (_, preconditionOf, kind) => {
      const [from, to] = [fresh('aside'), fresh('good')];
      await put(to, 'older');
      await put(from, 'newer');
      const precondition = await preconditionOf(to);
      expect(await kindOf(store.promote(from, to, { precondition }))).toBe(kind);
      expect(await textOf((await store.get(to))?.body)).toBe(kind === 'stored' ? 'newer' : 'older');
      expect(await textOf((await store.get(from))?.body)).toBe(kind === 'stored' ? '(no object)' : 'newer');
    });

    it('does not replace by a create-only body in parts', async () => {
      await put('taken', 'first');
      const body = chunks([Buffer.alloc(5 * MIB), Buffer.alloc(10)]);
      expect(await kindOf(store.put('taken', body, { meta: newMeta(), precondition: ABSENT }))).toBe(
        'exists',
      );
      expect(await textOf((await store.get('taken'))?.body)).toBe('first');
    });

    it('stores exactly one of two create-only bodies in parts, whole', async () => {
      const key = fresh('raced-parts');
      const both = [1, 2].map((fill) => [Buffer.alloc(5 * MIB, fill), Buffer.alloc(10, fill)]);
      const outcomes = await Promise.all(
        both.map((parts) => kindOf(store.put(key, chunks(parts), { meta: newMeta(), precondition: ABSENT }))),
      );
      const loser = options.uploadsCreateOnly === false ? /exists|stored/ : /exists/;
      expect(outcomes.toSorted()).toEqual([expect.stringMatching(loser), 'stored']);
      const winners = both
        .filter((_, at) => outcomes[at] === 'stored')
        .map((parts) => md5(Buffer.concat(parts)));
      expect(winners).toContain(await md5Of((await store.get(key))?.body));
    });

    it.each([
      ['at once', []],
      ['after a small chunk', [100]],
      ['after whole parts', [5 * MIB, 5 * MIB, 5 * MIB]],
    ])('keeps the earlier object when the body throws %s, and throws its error', async (_, sizes) => {
      await put('kept', 'earlier');
      const broken = Object.assign(new Error('the file moved'), { code: 'EIO' });
      const body = (async function* parts() {
        for (const size of sizes) yield Buffer.alloc(size);
        throw broken;
      })();
      await expect(store.put('kept', body, { meta: newMeta() })).rejects.toBe(broken);
      expect(await textOf((await store.get('kept'))?.body)).toBe('earlier');
    });

    it('keeps the earlier object when the put is aborted, and rejects with the reason', async () => {
      await put('aborted', 'earlier');
      const abort = new AbortController();
      const reason = new Error('the deadline');
      const body = (async function* parts() {
        yield Buffer.alloc(5 * MIB);
        yield Buffer.alloc(5 * MIB);
        abort.abort(reason);
        yield Buffer.alloc(5 * MIB);
        yield Buffer.alloc(5 * MIB);
      })();
      const outcome = store.put('aborted', body, { meta: newMeta(), signal: abort.signal });
      await expect(outcome).rejects.toBe(reason);
      expect(await textOf((await store.get('aborted'))?.body)).toBe('earlier');
      await expect(put('aborted', 'later')).resolves.toBe('stored');
    });

    it('rejects at once if the signal is already aborted', async () => {
      const signal = AbortSignal.abort(new Error('too late'));
      await expect(store.put('late', Buffer.from('x'), { meta: newMeta(), signal })).rejects.toThrow(
        'too late',
      );
      await expect(store.get('late', { signal })).rejects.toThrow('too late');
      expect(await store.head('late')).toBeUndefined();
    });

    it('reports that there is no such object', async () => {
      expect(await store.get('none')).toBeUndefined();
      expect(await store.head('none')).toBeUndefined();
      expect(await store.head('none/below')).toBeUndefined();
    });

    it('returns ranges, with both ends inclusive', async () => {
      await put('ranges', '0123456789');
      const range = async (first: number, last: number): Promise<string> =>
        textOf((await store.get('ranges', { range: { first, last } }))?.body);
      expect(await range(0, 0)).toBe('0');
      expect(await range(2, 5)).toBe('2345');
      expect(await range(8, 99)).toBe('89');
      expect((await store.get('ranges', { range: { first: 3, last: 4 } }).then(unread))?.sizeBytes).toBe(10);
      await expect(range(10, 12)).rejects.toMatchObject({ kind: 'refused' });
    });

    it('lets a reader leave a body unread or half-read', async () => {
      await store.put('left', Buffer.alloc(4 * MIB), { meta: newMeta() });
      for (let round = 0; round < 20; round += 1) {
        await store.get('left').then(unread);
        for await (const chunk of (await store.get('left'))?.body ?? []) {
          expect(chunk.length).toBeGreaterThan(0);
          break;
        }
      }
      expect((await store.head('left'))?.sizeBytes).toBe(4 * MIB);
    });

    it('lists keys in byte order, whole keys below a prefix', async () => {
      const keys = ['l/a', 'l/a.b', 'l/a/b', 'l/a/c/d', 'l/ab', 'l/Z', 'l/\u{1F600}', 'l/\uFB01', 'lx'];
      for (const key of keys.filter((one) => one !== 'l/a')) await put(key, key);
      const listed = await listOf(store, 'l/');
      expect(listed).toEqual(['l/Z', 'l/a.b', 'l/a/b', 'l/a/c/d', 'l/ab', 'l/\uFB01', 'l/\u{1F600}']);
      expect(await listOf(store, 'l/a')).toEqual(['l/a.b', 'l/a/b', 'l/a/c/d', 'l/ab']);
      expect(await listOf(store, 'l/a/')).toEqual(['l/a/b', 'l/a/c/d']);
      expect(await listOf(store, 'l/a/b')).toEqual(['l/a/b']);
      expect(await listOf(store, 'no/such/')).toEqual([]);
    });

    it('lists the size and the time of storing of each object, equal to those of a single look', async () => {
      await put('when/a', 'seven b');
      await put('when/b', '');
      for await (const { key, sizeBytes, modifiedMs } of store.list('when/')) {
        const head = await store.head(key);
        expect(sizeBytes).toBe(head?.sizeBytes);
        // S3's HEAD gives whole seconds.
        expect(Math.abs((modifiedMs ?? 0) - (head?.modifiedMs ?? Infinity))).toBeLessThan(1000);
      }
    });

    it('names the folders below a prefix, and nothing deeper', async () => {
      for (const key of ['f/a b/1', 'f/a b/2/x', 'f/c', 'f/z%25/1', 'g/h/1']) await put(key, key);
      expect(await store.folders('f/')).toEqual(['a b', 'z%25']);
      expect(await store.folders('no/such/')).toEqual([]);
    });

    it.each([
      'odd/a b+c.0',
      'odd/100%.0',
      'odd/%0A%FF.0',
      'odd/a&b=c?d#e.0',
      `odd/"<'é>~!*().0`,
      'odd/.capture/x.json',
    ])('uses the key %s unchanged', async (key) => {
      await put(key, key);
      expect(await textOf((await store.get(key))?.body)).toBe(key);
      expect(await listOf(store, key)).toEqual([key]);
      await store.copy(key, `${key}.~1~`);
      expect(await textOf((await store.get(`${key}.~1~`))?.body)).toBe(key);
      await store.delete([key, `${key}.~1~`]);
      expect(await listOf(store, key)).toEqual([]);
    });

    it('deletes what exists and ignores what does not', async () => {
      const keys = ['gone/1', 'gone/2', 'gone/3', 'gone/4', 'gone/5', 'gone/6'];
      for (const key of keys) await put(key, 'x');
      await put('gone/kept', 'x');
      await store.delete([...keys, 'gone/never-was', 'never/was']);
      expect(await listOf(store, 'gone/')).toEqual(['gone/kept']);
      await store.delete([]);
    });

    it('copies bytes and metadata, and throws when there is nothing to copy', async () => {
      const meta = { ...newMeta(), md5: 'abc' };
      await store.put('copy/from', Buffer.from('bytes'), { meta });
      await put('copy/to', 'earlier');
      await store.copy('copy/from', 'copy/to');
      expect(await toldOf(store, 'copy/to')).toEqual({
        key: 'copy/to',
        tag: expect.any(String),
        sizeBytes: 5,
        meta,
        modifiedMs: expect.any(Number),
      });
      await expect(store.copy('copy/none', 'copy/to')).rejects.toMatchObject({ kind: 'missing' });
      expect(await textOf((await store.get('copy/to'))?.body)).toBe('bytes');
    });

    it('reports the purpose of each try', async () => {
      const usesOf = async (work: () => Promise<unknown>): Promise<readonly StoreUse[]> => {
        tried.length = 0;
        await work();
        return [...new Set(tried)];
      };
      expect(await usesOf(() => put('tried', 'x'))).toEqual(['write']);
      expect(await usesOf(() => store.head('tried'))).toEqual(['read']);
      expect(await usesOf(() => store.delete(['tried']))).toEqual(['remove']);
      expect(await usesOf(() => store.sweep('', () => false))).toEqual(
        options.sweepsNothing ? [] : ['remove'],
      );
    });

    it('confirms that it is the store that was opened', async () => {
      await put('confirmed', 'x');
      await expect(store.confirm()).resolves.toBeUndefined();
    });

    it('sweeps without touching objects', async () => {
      await put('swept', 'x');
      expect(await store.sweep('', () => true)).toBe(true);
      expect((await store.head('swept'))?.sizeBytes).toBe(1);
    });
  });
}

/** A key of its own for each try of a test: what a try before has left would decide the next one. */
function fresh(name: string): string {
  return `${name}-${randomUUID()}`;
}

/** The precondition of the put that replaces this one. */
function exactlyStored(outcome: PutOutcome): Precondition {
  if (outcome.kind !== 'stored') throw new Error(`not stored: ${outcome.kind}`);
  return exactly(outcome);
}

/** How a put has ended. */
export async function kindOf(put: Promise<PutOutcome>): Promise<PutOutcome['kind']> {
  return (await put).kind;
}

export function newMeta(): ObjectMeta {
  return { push: randomUUID() };
}

export async function* chunks(parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}

export async function bytesOf(body: AsyncIterable<Uint8Array> | undefined): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of body ?? []) parts.push(chunk);
  return Buffer.concat(parts);
}

export async function textOf(body: AsyncIterable<Uint8Array> | undefined): Promise<string> {
  return body === undefined ? '(no object)' : (await bytesOf(body)).toString();
}

/** What every store tells of an object; a directory tells its permissions, too. */
async function toldOf(store: Store, key: string): Promise<ObjectHead | undefined> {
  const head = await store.head(key);
  if (head === undefined) return undefined;
  const { permissions: _, ...told } = head;
  return told;
}

export async function listOf(store: Store, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list(prefix)) keys.push(key);
  return keys;
}

async function unread<T extends { readonly body: AsyncIterable<Uint8Array> }>(
  got: T | undefined,
): Promise<T | undefined> {
  await got?.body[Symbol.asyncIterator]().return?.();
  return got;
}

async function md5Of(body: AsyncIterable<Uint8Array> | undefined): Promise<string> {
  return md5(await bytesOf(body));
}

function md5(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('hex');
}
