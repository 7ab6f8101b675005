// What goes wrong between the driver for Cloud Storage and its server: answers that are lost or late, uploads that are
// taken in pieces, damage, a server that dies.
import { describe, expect, it, onTestFinished } from 'vitest';
import { ABSENT, exactly, type Store } from '../../../src/store/contract/store.ts';
import { type Fault, type GcsServer, type Incoming, startGcsServer } from '../../gcs-server/server.ts';
import { bytesOf, chunks, kindOf, listOf, newMeta, textOf } from '../contract.ts';
import { eachOnItsServer, openGcs } from './setup.ts';

const MIB = 2 ** 20;

let server: GcsServer;
let store: Store;
eachOnItsServer(2000, (started, opened) => {
  server = started;
  store = opened;
});

/** The first request of this operation that also fits has the fault. */
function once(
  operation: Incoming['operation'],
  fault: Fault,
  fits: (incoming: Incoming) => boolean = () => true,
): void {
  let isOver = false;
  server.fault = (incoming) => {
    if (isOver || incoming.operation !== operation || !fits(incoming)) return undefined;
    isOver = true;
    return fault;
  };
}

const counts = (operation: Incoming['operation']): number =>
  server.served.filter((one) => one.operation === operation).length;

const partsOf = (...sizes: readonly number[]): Buffer[] =>
  sizes.map((size, at) => Buffer.alloc(size, at + 1));

const stored = async (key: string): Promise<Buffer> => bytesOf((await store.get(key))?.body);

describe('a put', () => {
  it.each([
    ['only to create', ABSENT],
    ['over anything', undefined],
  ])('whose answer is lost is stored once its object is found: %s', async (_, precondition) => {
    once('put', { kind: 'lose-answer' });
    expect(await kindOf(store.put('r', Buffer.from('x'), { meta: newMeta(), precondition }))).toBe('stored');
    expect(server.versions('run7/r')).toHaveLength(1);
  });

  it('that got no answer never undoes a newer one', async () => {
    const first = await store.put('r', Buffer.from('1'), { meta: newMeta(), precondition: ABSENT });
    const tag = first.kind === 'stored' ? first.tag : '';
    const impatient = await openGcs('gs://lab/run7', 0);
    onTestFinished(() => impatient.close());
    once('put', { kind: 'late' });
    const late = impatient.put('r', Buffer.from('late'), {
      meta: newMeta(),
      precondition: { kind: 'is', tag },
    });
    await expect(late).rejects.toMatchObject({ kind: 'transient' });
    expect(
      await kindOf(store.put('r', Buffer.from('2'), { meta: newMeta(), precondition: { kind: 'is', tag } })),
    ).toBe('stored');
    for (const deliver of server.held) deliver();
    expect((await stored('r')).toString()).toBe('2');
  });

  it('whose bytes are changed on the way is refused by the server, and sent again', async () => {
    const wrong = '0'.repeat(32);
    await expect(store.put('r', Buffer.from('x'), { meta: newMeta(), md5: wrong })).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining('damaged on its way'),
    });
    expect(server.keys()).toEqual([]);
  });

  it.each([
    ['bytes', () => Buffer.from('seven b')],
    ['a body in parts', () => chunks(partsOf(5 * MIB, 10))],
  ])('of which the store holds other bytes than were sent is no success: %s', async (_, body) => {
    server.fault = ({ operation, headers }) =>
      operation === 'put' || headers['content-range']?.endsWith('/5242890') ? { kind: 'damage' } : undefined;
    await expect(store.put('r', body(), { meta: newMeta(), precondition: ABSENT })).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining('other bytes than were sent'),
    });
  });

  it('is cached nowhere', async () => {
    await store.put('a', Buffer.from('x'), { meta: newMeta() });
    await store.put('b', chunks(partsOf(5 * MIB, 1)), { meta: newMeta() });
    await store.copy('b', 'c');
    for (const key of ['a', 'b', 'c']) expect(server.object(`run7/${key}`)?.cacheControl).toBe('no-store');
  });
});

it('a copy over an object that others replace all the time ends as one that may be tried again', async () => {
  for (const key of ['a', 'other']) await store.put(key, Buffer.from(key), { meta: newMeta() });
  server.fault = ({ operation }) => {
    const other = server.object('run7/other');
    if (operation === 'rewrite' && other !== undefined) server.objects.put('run7/b', other, undefined);
    return undefined;
  };
  await expect(store.copy('a', 'b')).rejects.toMatchObject({
    kind: 'transient',
    message: expect.stringContaining('b was replaced by another each time'),
  });
  expect(counts('rewrite')).toBe(10);
});

describe('a body in parts', () => {
  const parts = (): Buffer[] => partsOf(5 * MIB, 5 * MIB, 5 * MIB, 1234);
  const put = (): Promise<string> =>
    kindOf(store.put('big', chunks(parts()), { meta: newMeta(), precondition: ABSENT }));
  const isLast = ({ headers }: Incoming): boolean => !headers['content-range']?.endsWith('/*');

  it.each<[string, Incoming['operation'], Fault, ((incoming: Incoming) => boolean)?]>([
    ['the start', 'begin-upload', { kind: 'lose-answer' }],
    ['a part', 'upload', { kind: 'lose-answer' }, ({ nth }) => nth === 2],
    ['the end', 'upload', { kind: 'lose-answer' }, isLast],
  ])('survives the loss of the answer to %s', async (_, operation, fault, fits) => {
    once(operation, fault, fits);
    expect(await put()).toBe('stored');
    expect((await stored('big')).equals(Buffer.concat(parts()))).toBe(true);
    expect(server.versions('run7/big')).toHaveLength(1);
  });

  it('is sent no further if the body breaks off: its memory may be reused', async () => {
    once('upload', { kind: 'stall' });
    const broken = new Error('the file moved');
    const body = async function* body(): AsyncGenerator<Uint8Array> {
      yield* partsOf(5 * MIB, 5 * MIB);
      await expect.poll(() => counts('upload')).toBe(1);
      throw broken;
    };
    await expect(store.put('big', body(), { meta: newMeta() })).rejects.toBe(broken);
    await expect.poll(() => server.abandoned).toBe(1);
  });

  it('asks what became of the upload if the answer to its end is lost, and a look fails', async () => {
    let isLost = false;
    server.fault = (incoming) => {
      const isEnd = incoming.operation === 'upload' && isLast(incoming);
      if (isEnd && !isLost) {
        isLost = true;
        return { kind: 'lose-answer' };
      }
      return incoming.operation === 'head' ? { kind: 'answer', status: 503 } : undefined;
    };
    expect(await put()).toBe('stored');
    expect(counts('ask-upload')).toBe(1);
    expect(server.versions('run7/big')).toHaveLength(1);
  });

  it.each<[string, Fault]>([
    ['the connection breaks in a part', { kind: 'reset', afterBytes: 100_000 }],
    ['a part is answered by 503', { kind: 'answer', status: 503 }],
    ['the store takes a piece of a part', { kind: 'take', bytes: MIB }],
    ['the store takes nothing of a part', { kind: 'take', bytes: 0 }],
  ])('is whole if %s', async (_, fault) => {
    once('upload', fault, ({ nth }) => nth === 2);
    expect(await put()).toBe('stored');
    expect((await stored('big')).equals(Buffer.concat(parts()))).toBe(true);
  });

  it('may have parts of any size, which it sends in whole units', async () => {
    const odd = partsOf(5 * MIB + 1, 7, 5 * MIB + 4711, 300_000, 99);
    const released: number[] = [];
    const release = (chunk: Uint8Array): void => {
      released.push(chunk.length);
      chunk.fill(0xff);
    };
    const copy = odd.map((part) => Buffer.from(part));
    expect(await kindOf(store.put('odd', chunks(odd), { meta: newMeta(), release }))).toBe('stored');
    expect((await stored('odd')).equals(Buffer.concat(copy))).toBe(true);
    expect(released).toHaveLength(4);
  });

  it('may end with an empty part', async () => {
    expect(await kindOf(store.put('big', chunks(partsOf(5 * MIB, 0)), { meta: newMeta() }))).toBe('stored');
    expect((await stored('big')).length).toBe(5 * MIB);
  });

  it('does not replace what was created while it was sent', async () => {
    server.fault = (incoming) => {
      if (incoming.operation === 'upload' && isLast(incoming) && server.object('run7/big') === undefined)
        server.objects.put(
          'run7/big',
          { bytes: Buffer.from('other'), meta: {}, cacheControl: undefined },
          null,
        );
      return undefined;
    };
    expect(await put()).toBe('exists');
    expect((await stored('big')).toString()).toBe('other');
  });

  it('whose upload is gone is no success', async () => {
    server.fault = ({ operation, nth }) => {
      if (operation === 'upload' && nth === 2) server.forgetUploads();
      return undefined;
    };
    await expect(put()).rejects.toMatchObject({
      kind: 'transient',
      message: 'put gs://lab/run7/big: the store has dropped the upload',
    });
    expect(server.keys()).toEqual([]);
    expect(await put()).toBe('stored');
  });

  it('continues where it was when the server dies and is back', async () => {
    const patient = await openGcs('gs://lab/run7', 20_000);
    onTestFinished(() => patient.close());
    let next: Promise<GcsServer> | undefined;
    server.fault = ({ operation, nth }) => {
      if (operation !== 'upload' || nth !== 2) return undefined;
      next ??= server.stop().then(() => startGcsServer({ port: server.port, after: server.objects }));
      return { kind: 'stall' };
    };
    const put = patient.put('big', chunks(parts()), { meta: newMeta(), precondition: ABSENT });
    onTestFinished(async () => (await next)?.stop());
    expect(await kindOf(put)).toBe('stored');
    expect((await bytesOf((await patient.get('big'))?.body)).equals(Buffer.concat(parts()))).toBe(true);
  });
});

describe('a promotion', () => {
  const put = (key: string, text: string) => store.put(key, Buffer.from(text), { meta: newMeta() });

  it('whose answer is lost has taken place', async () => {
    await put('aside', 'x');
    once('rewrite', { kind: 'lose-answer' });
    expect(await kindOf(store.promote('aside', 'good', { precondition: ABSENT }))).toBe('stored');
    expect(server.keys()).toEqual(['run7/good']);
    expect(server.versions('run7/good')).toHaveLength(1);
  });

  it('that arrives late undoes no newer object, also one over anything', async () => {
    await put('aside', 'old');
    const impatient = await openGcs('gs://lab/run7', 0);
    onTestFinished(() => impatient.close());
    server.fault = ({ operation }) => (operation === 'rewrite' ? { kind: 'late' } : undefined);
    await expect(impatient.promote('aside', 'good')).rejects.toMatchObject({ kind: 'transient' });
    await put('good', 'newer');
    for (const deliver of server.held) deliver();
    expect((await stored('good')).toString()).toBe('newer');
  });

  it('never copies another state of its source', async () => {
    await put('aside', 'old');
    const found = await store.head('aside');
    await put('aside', 'newer');
    const source = { tag: found?.tag ?? '', sizeBytes: 3, push: found?.meta['push'] ?? '' };
    await expect(store.promote('aside', 'good', { precondition: ABSENT, source })).rejects.toMatchObject({
      kind: 'refused',
    });
    expect(server.object('run7/good')).toBeUndefined();
  });

  it('succeeds without the right to delete, and both objects stay', async () => {
    await put('aside', 'x');
    server.fault = ({ operation }) =>
      operation === 'delete' ? { kind: 'answer', status: 403, reason: 'forbidden' } : undefined;
    expect(await kindOf(store.promote('aside', 'good', { precondition: ABSENT }))).toBe('stored');
    expect(server.keys()).toEqual(['run7/aside', 'run7/good']);
  });
});

it.each<[Incoming['operation'], () => Promise<unknown>, unknown]>([
  ['head', async () => (await store.head('r'))?.sizeBytes, 5],
  ['get', async () => String(await stored('r')), 'bytes'],
  ['list', () => listOf(store, ''), ['r']],
  ['rewrite', () => store.copy('r', 'other'), undefined],
  ['delete', () => store.delete(['r']), undefined],
])("a gateway's 404 says nothing about objects: %s", async (operation, work, answer) => {
  await store.put('r', Buffer.from('bytes'), { meta: newMeta() });
  once(operation, { kind: 'answer', status: 404, body: '<html>no such host</html>' });
  expect(await work()).toEqual(answer);
  expect(counts(operation)).toBeGreaterThanOrEqual(2);
});

describe('an error', () => {
  it.each<[string, Fault, string, RegExp]>([
    [
      '403',
      { kind: 'answer', status: 403, reason: 'AccessDenied' },
      'denied',
      /access denied .http 403, AccessDenied, 1 try/,
    ],
    [
      '404 of the bucket',
      { kind: 'answer', status: 404, reason: 'NoSuchBucket' },
      'missing',
      /no such bucket/,
    ],
    ['429', { kind: 'answer', status: 429, reason: 'SlowDown' }, 'busy', /busy/],
    ['403 of the rate', { kind: 'answer', status: 403, reason: 'rateLimitExceeded' }, 'busy', /busy/],
    ['quota', { kind: 'answer', status: 403, reason: 'QuotaExceeded' }, 'full', /quota/],
    ['503', { kind: 'answer', status: 503 }, 'transient', /the server failed/],
    ['408', { kind: 'answer', status: 408 }, 'transient', /the server failed/],
    ['400', { kind: 'answer', status: 400, reason: 'invalid' }, 'refused', /refused .http 400, invalid/],
    [
      '200 of something else',
      { kind: 'answer', status: 200, body: '<html>log in</html>' },
      'transient',
      /not one of Cloud Storage/,
    ],
  ])('%s of a put', async (_, fault, kind, message) => {
    const impatient = await openGcs('gs://lab/run7', 0);
    onTestFinished(() => impatient.close());
    server.fault = ({ operation }) => (operation === 'put' ? fault : undefined);
    await expect(impatient.put('r', Buffer.from('x'), { meta: newMeta() })).rejects.toMatchObject({
      kind,
      message: expect.stringMatching(message),
    });
  });

  it('names a bucket that does not exist, also for a listing', async () => {
    const other = await openGcs('gs://other/run7', 0);
    onTestFinished(() => other.close());
    await expect(listOf(other, '')).rejects.toMatchObject({ kind: 'missing', hint: /create the bucket/ });
    await expect(other.get('r')).rejects.toMatchObject({ kind: 'missing' });
    await expect(other.delete(['r'])).rejects.toMatchObject({ kind: 'missing' });
  });

  it('of a body that breaks off is never the end of it', async () => {
    await store.put('r', Buffer.alloc(MIB), { meta: newMeta() });
    once('get', { kind: 'cut-answer', afterBytes: 1000 });
    await expect(stored('r')).rejects.toMatchObject({
      kind: 'transient',
      message: /after \d+ of 1048576 bytes/,
    });
  });

  it('of a server that is not there says how to look for it', async () => {
    await server.stop();
    const impatient = await openGcs('gs://lab/run7', 0);
    onTestFinished(() => impatient.close());
    await expect(impatient.head('r')).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining(`cannot reach ${server.url}`),
      hint: expect.stringContaining('STORAGE_EMULATOR_HOST'),
    });
    // The server is stopped again by the others' clean-up.
    const again = await startGcsServer({ port: server.port });
    server.stop = again.stop;
  });
});

it('a listing of many pages is whole and in order, also with pages without keys', async () => {
  server.pageSize = 7;
  const keys = Array.from({ length: 100 }, (_, at) => `l/${at}`).toSorted();
  for (const key of keys) await store.put(key, Buffer.from(key), { meta: newMeta() });
  expect(await listOf(store, 'l/')).toEqual(keys);
  expect(counts('list')).toBeGreaterThan(10);
});

it('keys of 1,024 bytes and odd characters stay what they are', async () => {
  const long = `${'k'.repeat(1024 - 5 - 3)}%é`;
  for (const key of ['a b/?#+&=', '%41%2F', `~!*'();:@,$[]`, 'é/😀', '..a/.b', '\\|^`{}<>"', long]) {
    expect(
      await kindOf(store.put(key, Buffer.from(key), { meta: newMeta(), precondition: ABSENT })),
      key,
    ).toBe('stored');
    expect(server.keys()).toEqual([`run7/${key}`]);
    expect(await textOf((await store.get(key))?.body)).toBe(key);
    expect(await listOf(store, key)).toEqual([key]);
    await store.promote(key, 'other');
    await store.promote('other', key, { precondition: ABSENT });
    expect(exactly(await store.head(key))).not.toEqual(ABSENT);
    await store.put(key, chunks(partsOf(5 * MIB, 1)), { meta: newMeta() });
    expect(server.keys()).toEqual([`run7/${key}`]);
    await store.delete([key]);
  }
});
