import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ABSENT, exactly, type Precondition, type Store } from '../../../src/store/contract/store.ts';
import { type AzureFault, type AzureOperation, type AzureServer, type Incoming } from '../../azure/server.ts';
import { chunks, kindOf, listOf, newMeta, storeContract, textOf } from '../contract.ts';
import { openContainer } from '../../../src/store/azure/container.ts';
import { copyObject, promoteObject } from '../../../src/store/azure/copy.ts';
import { listObjects } from '../../../src/store/azure/list.ts';
import { onAzureServer, openAzure } from './setup.ts';

const MIB = 2 ** 20;

let server: AzureServer;
onAzureServer((started) => {
  server = started;
});

storeContract(
  'the Azure store',
  async (onTry) => {
    const store = await openAzure(`${server.url}/lab 7/run`, undefined, onTry);
    return { store, cleanup: () => store.close() };
  },
  { sweepsNothing: true },
);

let count = 0;
let run = '';
let store: Store;
beforeEach(async () => {
  count += 1;
  run = `run${count}`;
  store = await openAzure(`${server.url}/${run}`, 20_000);
  await listOf(store, '');
  server.served.length = 0;
});
afterEach(async () => {
  server.fault = undefined;
  await server.late();
});

const put = (key: string, text: string, precondition?: Precondition): Promise<string> =>
  kindOf(store.put(key, Buffer.from(text), { meta: newMeta(), precondition }));
const partsOf = (fill: number): AsyncGenerator<Uint8Array> =>
  chunks([0, 1, 2].map((at) => Buffer.alloc(MIB, fill + at)));
const putParts = (fill: number, precondition?: Precondition): Promise<string> =>
  kindOf(store.put('big', partsOf(fill), { meta: newMeta(), precondition }));
const look = async (key: string): Promise<Precondition> => exactly(await store.head(key));
const read = async (key: string): Promise<string> => textOf((await store.get(key))?.body);
const versions = (key: string): number => server.versions(`${run}/${key}`).length;
const served = (operation: AzureOperation): number =>
  server.served.filter((one) => one.operation === operation).length;
/** The fault for the first requests of an operation. */
const faulty =
  (operation: AzureOperation, fault: AzureFault, times = 1) =>
  (incoming: Incoming): AzureFault | undefined =>
    incoming.operation === operation && incoming.nth <= times ? fault : undefined;

describe('retries', () => {
  it.each<[string, AzureFault]>([
    ['500', { kind: 'answer', status: 500, code: 'InternalError' }],
    ['500 OperationTimedOut', { kind: 'answer', status: 500, code: 'OperationTimedOut' }],
    ['502 without a code', { kind: 'answer', status: 502 }],
    ['a page of a gateway', { kind: 'answer', status: 200, headers: { 'content-type': 'text/html' } }],
    ['an answer that was lost', { kind: 'lose-answer' }],
    ['a body that was damaged on its way', { kind: 'damage' }],
  ])('a put after %s', async (_, fault) => {
    server.fault = faulty('PutBlob', fault, 2);
    expect(await put('r.dat', 'bytes')).toBe('stored');
    expect(served('PutBlob')).toBe(3);
    // Azure compares it with the body. azurite compares the md5 that it is told to keep.
    for (const { operation, headers } of server.served)
      if (operation === 'PutBlob') expect(headers['content-md5']).toBe(headers['x-ms-blob-content-md5']);
    expect(new Set(server.versions(`${run}/r.dat`).map(String))).toEqual(new Set(['bytes']));
  });

  it.each<AzureFault>([{ kind: 'lose-answer' }, { kind: 'damage' }])(
    'one block after %j, and no other',
    async (fault) => {
      server.fault = faulty('PutBlock', fault);
      expect(await putParts(1)).toBe('stored');
      expect(served('PutBlock')).toBe(4);
      expect(versions('big')).toBe(1);
      expect(server.versions(`${run}/big`)[0]?.equals(Buffer.concat(await allOf(partsOf(1))))).toBe(true);
    },
  );

  it.each<[AzureOperation, () => Promise<unknown>]>([
    ['GetBlobProperties', () => store.head('r.dat')],
    ['GetBlob', () => read('r.dat')],
    ['ListBlobs', () => listOf(store, '')],
    ['ListBlobs', () => store.folders('')],
    ['DeleteBlob', () => store.delete(['r.dat'])],
    ['CopyBlobFromURL', () => store.copy('r.dat', 'copy')],
  ])('%s', async (operation, work) => {
    await put('r.dat', 'bytes');
    server.fault = faulty(operation, { kind: 'answer', status: 500 }, 2);
    await work();
    expect(served(operation)).toBe(3);
  });

  it('with longer pauses while the server is busy, and says how often it tried', async () => {
    const tries: string[] = [];
    const hasty = await openAzure(`${server.url}/${run}`, 100, (_, error) => tries.push(error?.kind ?? 'ok'));
    server.fault = () => ({ kind: 'answer', status: 503, code: 'ServerBusy' });
    await expect(hasty.head('r.dat')).rejects.toThrow(
      /^GetBlobProperties az:\/\/devstoreaccount1\/lab\/run\d+\/r\.dat: the server is busy \(http 503, ServerBusy, [2-9]\d* tries\)$/,
    );
    expect(new Set(tries)).toEqual(new Set(['busy']));
  });

  it('a body that breaks off in what is read ahead; later it throws', async () => {
    await store.put('r.dat', Buffer.alloc(MIB, 1), { meta: newMeta() });
    server.fault = faulty('GetBlob', { kind: 'cut' });
    const got = await store.get('r.dat', { aheadBytes: MIB });
    expect((await textOf(got?.body)).length).toBe(MIB);
    server.served.length = 0;
    const broken = await store.get('r.dat');
    await expect(textOf(broken?.body)).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringMatching(/the answer broke off after \d+ of 1048576 bytes/),
    });
  });

  it('no longer once it is aborted, also while the server says nothing', async () => {
    const abort = new AbortController();
    server.fault = () => {
      abort.abort(new Error('the deadline'));
      return { kind: 'stall' };
    };
    await expect(store.head('r.dat', abort.signal)).rejects.toThrow('the deadline');
  });
});

describe('settles an answer that was lost', () => {
  it('to a create: the object there is ours', async () => {
    server.fault = faulty('PutBlob', { kind: 'lose-answer' });
    expect(await put('r.dat', 'bytes', ABSENT)).toBe('stored');
    expect(versions('r.dat')).toBe(1);
  });

  it('to a replacement', async () => {
    await put('r.dat', 'older');
    const precondition = await look('r.dat');
    server.served.length = 0;
    server.fault = faulty('PutBlob', { kind: 'lose-answer' });
    expect(await put('r.dat', 'newer', precondition)).toBe('stored');
    expect(versions('r.dat')).toBe(2);
  });

  it.each([[undefined], [ABSENT]])('to Put Block List with %j', async (precondition) => {
    server.fault = faulty('PutBlockList', { kind: 'lose-answer' });
    expect(await putParts(1, precondition)).toBe('stored');
  });

  it.each([[undefined], [ABSENT]])('to the copy of a promotion with %j', async (precondition) => {
    await put('aside', 'bytes');
    server.fault = faulty('CopyBlobFromURL', { kind: 'lose-answer' });
    expect(await kindOf(store.promote('aside', 'r.dat', { precondition }))).toBe('stored');
    expect(versions('r.dat')).toBe(1);
    expect(await listOf(store, '')).toEqual(['r.dat']);
  });
});

describe('a request that arrives late undoes nothing newer', () => {
  it('a replacement', async () => {
    await put('r.dat', 'first');
    const precondition = await look('r.dat');
    server.served.length = 0;
    server.fault = faulty('PutBlob', { kind: 'late' });
    expect(await put('r.dat', 'second', precondition)).toBe('stored');
    expect(await put('r.dat', 'third', await look('r.dat'))).toBe('stored');
    expect(await server.late()).toEqual([412]);
    expect(await read('r.dat')).toBe('third');
  });

  it('a create', async () => {
    server.fault = faulty('PutBlob', { kind: 'late' });
    expect(await put('r.dat', 'first', ABSENT)).toBe('stored');
    expect(await put('r.dat', 'second', await look('r.dat'))).toBe('stored');
    expect(await server.late()).toEqual([409]);
    expect(await read('r.dat')).toBe('second');
  });

  it.each<[string, () => Promise<Precondition | undefined>, () => Promise<unknown>]>([
    ['that replaces', () => look('big'), () => put('big', 'newest')],
    ['that creates', async () => ABSENT, () => put('big', 'newest')],
    ['that creates, after a deletion', async () => ABSENT, () => store.delete(['big'])],
    ['without a condition', async () => undefined, () => put('big', 'newest')],
    ['without a condition, after a deletion', async () => undefined, () => store.delete(['big'])],
  ])('a Put Block List %s', async (_, preconditionOf, act) => {
    if (_ === 'that replaces') await put('big', 'first');
    const precondition = await preconditionOf();
    server.fault = faulty('PutBlockList', { kind: 'late' });
    expect(await putParts(1, precondition)).toBe('stored');
    await act();
    const after = await read('big');
    expect((await server.late())[0]).toBeGreaterThanOrEqual(400);
    expect(await read('big')).toBe(after);
  });

  it.each([['absent'], ['any']] as const)('the copy of a promotion, %s', async (kind) => {
    await put('aside', 'first');
    server.fault = (incoming) =>
      incoming.operation === 'DeleteBlob'
        ? { kind: 'answer', status: 403 }
        : faulty('CopyBlobFromURL', { kind: 'late' })(incoming);
    expect(await kindOf(store.promote('aside', 'r.dat', { precondition: { kind } }))).toBe('stored');
    expect(await put('r.dat', 'second', await look('r.dat'))).toBe('stored');
    expect((await server.late())[0]).toBeGreaterThanOrEqual(400);
    expect(await read('r.dat')).toBe('second');
  });
});

describe('two writers of one key', () => {
  /** A body that lets another writer write after its second block. */
  async function* interrupted(act: () => Promise<unknown>): AsyncGenerator<Uint8Array> {
    yield Buffer.alloc(MIB);
    yield Buffer.alloc(MIB);
    await act();
    yield Buffer.alloc(MIB);
  }
  const meta = newMeta();

  it('whose blocks the other has discarded: a create finds the object of the other', async () => {
    const body = interrupted(() => put('r.dat', 'the other'));
    server.fault = faulty('PutBlockList', { kind: 'answer', status: 400, code: 'InvalidBlockList' });
    expect(await kindOf(store.put('r.dat', body, { meta, precondition: ABSENT }))).toBe('exists');
    expect(await read('r.dat')).toBe('the other');
  });

  it('whose blocks the other has discarded: a replacement finds another state', async () => {
    await put('r.dat', 'older');
    const precondition = await look('r.dat');
    const body = interrupted(() => put('r.dat', 'the other'));
    server.fault = faulty('PutBlockList', { kind: 'answer', status: 400, code: 'InvalidBlockList' });
    expect(await kindOf(store.put('r.dat', body, { meta, precondition }))).toBe('replaced-meanwhile');
    expect(await read('r.dat')).toBe('the other');
  });

  // azurite keeps blocks that Azure discards.
  it.each([[undefined], [ABSENT]])(
    'whose blocks are gone, and the key is free: the put can be made again (%j)',
    async (precondition) => {
      server.fault = faulty('PutBlockList', { kind: 'answer', status: 400, code: 'InvalidBlockList' });
      const outcome = store.put('r.dat', partsOf(1), { meta, precondition });
      await expect(outcome).rejects.toMatchObject({
        kind: 'transient',
        message: expect.stringContaining('discarded'),
      });
      expect(served('PutBlockList')).toBe(1);
      expect(await kindOf(store.put('r.dat', partsOf(1), { meta, precondition }))).toBe('stored');
    },
  );

  it('in parts: the blocks of two puts never mix', async () => {
    const outcomes = await Promise.all([1, 101].map((fill) => putParts(fill).catch(() => 'failed')));
    expect(outcomes).toContain('stored');
    const bytes = Buffer.from(server.versions(`${run}/big`).at(-1) ?? []);
    const whole = await Promise.all([1, 101].map(async (fill) => Buffer.concat(await allOf(partsOf(fill)))));
    expect(whole.some((one) => one.equals(bytes))).toBe(true);
  });
});

describe('a copy of a large object, in blocks', () => {
  const LIMITS = { wholeBytes: 1000, blockBytes: 400_000 };
  const bytes = Buffer.alloc(MIB, 'large');
  const opened = () =>
    openContainer({ url: `${server.url}/${run}`, flags: [], unfenced: false }, 5000, undefined);

  it('is the same object, and a promotion removes its source', async () => {
    const meta = { ...newMeta(), 'run-id': 'x' };
    await store.put('from', bytes, { meta });
    const container = await opened();
    await copyObject(container, { from: 'from', to: 'to' }, LIMITS);
    expect(served('PutBlockFromURL')).toBe(3);
    expect(await store.head('to')).toMatchObject({ meta, sizeBytes: MIB });
    const how = { precondition: exactly(await store.head('to')) };
    server.fault = faulty('PutBlockList', { kind: 'lose-answer' }, 2);
    expect(await kindOf(promoteObject(container, { from: 'from', to: 'to' }, how, LIMITS))).toBe('stored');
    expect(await read('to')).toBe(String(bytes));
    expect(await listOf(store, '')).toEqual(['to']);
    await expect(promoteObject(container, { from: 'from', to: 'to' }, {}, LIMITS)).rejects.toMatchObject({
      kind: 'missing',
    });
  });

  it('is of one state of its source, which changes meanwhile', async () => {
    await store.put('from', bytes, { meta: newMeta() });
    const newer = Buffer.alloc(MIB, 'newer');
    server.fault = ({ operation, nth }) =>
      operation === 'PutBlockFromURL' && nth === 3
        ? { kind: 'delay', until: put('from', String(newer)) }
        : undefined;
    await copyObject(await opened(), { from: 'from', to: 'to' }, LIMITS);
    const seen = server.versions(`${run}/to`).map(String);
    expect(seen).toEqual([String(newer)]);
  });
});

describe('a copy whose source has too long a URL for Azure', () => {
  const LIMITS = { wholeBytes: 1000, blockBytes: 400_000 };
  const from = '\u4E2D'.repeat(300);
  const opened = () =>
    openContainer({ url: `${server.url}/${run}`, flags: [], unfenced: false }, 5000, undefined);

  it.each([17, MIB])('is made through this machine: %i bytes', async (size) => {
    const bytes = Buffer.alloc(size, 'large');
    const meta = { ...newMeta(), 'run-id': 'x' };
    await store.put(from, bytes, { meta });
    const container = await opened();
    await copyObject(container, { from, to: 'copy' }, LIMITS);
    server.fault = faulty('PutBlockList', { kind: 'lose-answer' }, 2);
    const how = { precondition: ABSENT };
    expect(await kindOf(promoteObject(container, { from, to: 'to' }, how, LIMITS))).toBe('stored');
    for (const key of ['copy', 'to']) {
      expect(await store.head(key)).toMatchObject({ meta, sizeBytes: size });
      expect(await read(key)).toBe(String(bytes));
    }
    expect(await store.head(from)).toBeUndefined();
    expect(served('PutBlock')).toBe(size < MIB ? 0 : 6);
  });

  it('replaces nothing else, and fails if its source is gone', async () => {
    const container = await opened();
    const promotion = (precondition: Precondition) =>
      promoteObject(
        container,
        { from, to: 'to' },
        { precondition, source: { tag: '"1"', push: 'p', sizeBytes: 5 } },
      );
    await put('to', 'older');
    await expect(promotion(ABSENT)).rejects.toMatchObject({ kind: 'missing' });
    await put(from, 'newer');
    await expect(promotion(ABSENT)).rejects.toMatchObject({ kind: 'missing' });
    const how = { precondition: ABSENT };
    expect(await kindOf(promoteObject(container, { from, to: 'to' }, how))).toBe('exists');
    expect(await read('to')).toBe('older');
  });
});

describe('its names', () => {
  it('of metadata are identifiers, and come back as they were', async () => {
    const meta = { ...newMeta(), 'run-id': 'x', a_b: 'y', '1st': 'z', 'a.b~': '~ "quoted" %' };
    await store.put('r.dat', Buffer.from('x'), { meta });
    const { metadata = {} } = await server.container.getBlobClient(`${run}/r.dat`).getProperties();
    for (const name of Object.keys(metadata)) expect(name).toMatch(/^[a-z_][a-z0-9_]*$/);
    expect(metadata['run_2did']).toBe('x');
    expect((await store.head('r.dat'))?.meta).toEqual(meta);
    await store.copy('r.dat', 'copy');
    expect((await store.head('copy'))?.meta).toEqual(meta);
  });

  it.each(['a\\b', 'dir./r.dat', 'r.dat.', 'x'.repeat(1025)])(
    'cannot be such that Azure changes them: %s',
    async (key) => {
      await expect(put(key, 'x')).rejects.toMatchObject({ kind: 'impossible' });
      await expect(putKey(key)).rejects.toMatchObject({ kind: 'impossible' });
      expect(served('PutBlob') + served('PutBlock')).toBe(0);
    },
  );
  const putKey = (key: string): Promise<unknown> => store.put(key, partsOf(1), { meta: newMeta() });

  it('may have 1,024 characters, and any others', async () => {
    for (const key of [
      'y'.repeat(1024 - run.length - 1),
      ' a',
      "it's (x) ?#&+%2F%.0",
      '17',
      'é\u{1F600}\u00A0',
    ]) {
      expect(await put(key, key)).toBe('stored');
      expect(await read(key)).toBe(key);
      expect(await listOf(store, key)).toEqual([key]);
    }
  });
});

describe('listings', () => {
  it('are read page by page, each in the order of bytes', async () => {
    const keys = ['p/0', 'p/1', 'p/2', 'p/3', 'p/4', 'p/\uFB01', 'p/\u{1F600}'];
    for (const key of keys) await put(key, 'x');
    const container = await openContainer(
      { url: `${server.url}/${run}`, flags: [], unfenced: false },
      0,
      undefined,
    );
    const listed: string[] = [];
    for await (const { key } of listObjects(container, 'p/', undefined, 2)) listed.push(key);
    expect(listed).toEqual(keys);
    expect(served('ListBlobs')).toBe(4);
  });

  it('of an account with a hierarchical namespace are refused', async () => {
    const other = await openAzure(`${server.url}/${run}`);
    server.fault = faulty('GetAccountInformation', {
      kind: 'answer',
      status: 200,
      headers: { 'x-ms-request-id': '1', 'x-ms-is-hns-enabled': 'true' },
    });
    await expect(listOf(other, '')).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('hierarchical namespace'),
    });
  });

  it('work without the right to ask for the kind of account', async () => {
    const other = await openAzure(`${server.url}/${run}`);
    server.fault = faulty('GetAccountInformation', { kind: 'answer', status: 403 });
    expect(await listOf(other, '')).toEqual([]);
    expect(await other.folders('')).toEqual([]);
    expect(served('GetAccountInformation')).toBe(1);
  });
});

describe('azurite that was killed and is back', () => {
  it('gets the rest of a put; of one in parts nothing is visible, and it can be made again', async () => {
    const body = (async function* parts() {
      yield* partsOf(1);
      await server.restart();
      yield Buffer.alloc(MIB);
    })();
    await expect(store.put('big', body, { meta: newMeta() })).rejects.toMatchObject({ kind: 'transient' });
    expect(await listOf(store, '')).toEqual([]);
    expect(await putParts(1)).toBe('stored');
  });
});

async function allOf(parts: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const all: Uint8Array[] = [];
  for await (const part of parts) all.push(part);
  return all;
}
