// What a sealed store shows to those who read the store itself, and to those who hold an identity or not.
import { beforeEach, describe, expect, it } from 'vitest';
import {
  parseRecord,
  recordSchema,
  textWithSum,
  type CaptureRecord,
} from '../../src/model/format/records.ts';
import { objectStream } from '../../src/restore/object-stream.ts';
import { newIdentity, recipientOf } from '../../src/seal/age.ts';
import { newIndexKey, SealKeys } from '../../src/seal/keys.ts';
import { sealedStore } from '../../src/seal/sealed-store.ts';
import type { Store } from '../../src/store/contract/store.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const KEY = '.capture/t/7/0001-000002.stored.json';
const OBJECT = 'r.dat.7.zst.age';
const PUSH = '1fd1a0e3-0a43-4c41-9a3a-0a0a6a1b2c3d';
const MD5 = '0123456789abcdef0123456789abcdef';
const SIZE = 7_654_321;

let inner: MemoryStore;
let identity: string;
let recipient: string;
let run: Store;
let record: CaptureRecord;

beforeEach(async () => {
  inner = memoryStore();
  identity = await newIdentity();
  recipient = await recipientOf(identity);
  const keys = new SealKeys([recipient], []);
  const indexKey = newIndexKey();
  run = sealedStore(inner, { keys, reader: 'run', indexKey });
  record = recordSchema.parse({
    format: 1,
    kind: 'stored',
    push: PUSH,
    capture: '0',
    attempt: 1,
    seq: 2,
    at: '2026-11-28T10:00:00.000Z',
    task: 't',
    index: '7',
    runToken: 'x',
    host: 'h',
    argv: [],
    startedAt: '2026-11-28T10:00:00.000Z',
    sealed: await keys.noteOf(indexKey),
    results: [{ ...file('r.dat', OBJECT) }],
    generations: [
      {
        attempt: 1,
        generation: 1,
        at: '2026-11-28T10:00:00.000Z',
        members: [file('k.chk', 'k.chk.t.7.1-1.age')],
        companions: [
          {
            path: 'log',
            size: SIZE,
            mode: 0o644,
            segments: [
              { key: 'log.t.7.1-1.1.age', push: PUSH, first: SIZE, size: SIZE, md5: MD5, compressed: false },
            ],
          },
        ],
        behind: [{ path: 'b', open: true, size: SIZE, mtimeNs: '1' }],
      },
    ],
  });
  await run.put(KEY, Buffer.from(textWithSum(record)), { meta: { push: PUSH } });
});

const file = (path: string, key: string): object => ({
  path,
  key,
  push: PUSH,
  attempt: 1,
  md5: MD5,
  size: SIZE,
  storedSize: 99,
  compressed: key.includes('.zst'),
  mtimeNs: '1',
  mode: 0o644,
});

const opening = (identities: readonly string[], reader: 'run' | 'look'): Store =>
  sealedStore(inner, { keys: new SealKeys([], identities), reader });

async function textAt(store: Store, key: string): Promise<string> {
  const got = await store.get(key);
  const chunks: Uint8Array[] = [];
  for await (const chunk of got?.body ?? []) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const stored = (key: string): string => inner.objects.get(key)?.bytes.toString('latin1') ?? '';

describe('a record', () => {
  it('says nothing of the bytes in the clear, and has a checksum', () => {
    const text = stored(KEY);
    expect(text).not.toContain(MD5);
    expect(text).not.toContain(String(SIZE));
    expect(text).toContain(OBJECT);
    expect(parseRecord(text)).toEqual({ invalid: 'it is sealed, and no identity here opens it' });
  });

  it('reads as it was for whoever has an identity, to the byte', async () => {
    expect(await textAt(opening([identity], 'run'), KEY)).toBe(textWithSum(record));
  });

  it('shows keys and sizes of objects to whoever has none, and can be written again without loss', async () => {
    const look = opening([], 'look');
    const seen = parseRecord(await textAt(look, KEY)) as CaptureRecord;
    expect(seen.results[0]).toMatchObject({ key: OBJECT, size: 99, md5: '0'.repeat(32) });
    const again = '.capture/t/7/0001-000003.stored.json';
    await look.put(again, Buffer.from(textWithSum({ ...seen, seq: 3 })), { meta: { push: PUSH } });
    const opened = parseRecord(await textAt(opening([identity], 'run'), again)) as CaptureRecord;
    expect(opened).toEqual({ ...record, seq: 3 });
  });

  it('names the recipients to whoever has another identity', async () => {
    const other = opening([await newIdentity()], 'look');
    await expect(other.get(KEY)).rejects.toMatchObject({
      status: 69,
      hint: expect.stringContaining(recipient) as string,
    });
  });

  it('is refused if a secret is that of another entry', async () => {
    const value = JSON.parse(stored(KEY)) as { results: { secret: string; push: string }[]; sum?: string };
    for (const one of value.results) one.push = '2fd1a0e3-0a43-4c41-9a3a-0a0a6a1b2c3d';
    delete value.sum;
    inner.objects.set(KEY, { bytes: Buffer.from(textWithSum(value)), meta: {} });
    expect(parseRecord(await textAt(opening([identity], 'run'), KEY))).toHaveProperty('invalid');
  });
});

describe('an object', () => {
  it('is stored only if its key says that it is sealed', async () => {
    await expect(run.put('r.dat.7', Buffer.from('x'), { meta: { push: PUSH } })).rejects.toThrow('in plain');
    expect(inner.objects.has('r.dat.7')).toBe(false);
    const plain = textWithSum({ ...record, sealed: undefined });
    await expect(run.put(KEY, Buffer.from(plain), { meta: { push: PUSH } })).rejects.toThrow('in plain');
  });

  it('shows no byte, md5 or size, and opens with an identity', async () => {
    const body = Buffer.from('energy -7.25\n'.repeat(50));
    const outcome = await run.put(OBJECT, body, {
      meta: { push: PUSH, size: String(body.length), md5: MD5 },
      md5: MD5,
    });
    expect(outcome).toMatchObject({ kind: 'stored', sizeBytes: inner.objects.get(OBJECT)?.bytes.length });
    expect(stored(OBJECT)).not.toContain('energy');
    const { meta } = inner.objects.get(OBJECT) ?? {};
    expect(meta).toEqual({ push: PUSH, secret: expect.any(String) as string });
    expect((await run.head(OBJECT))?.meta).toEqual({ push: PUSH, size: String(body.length), md5: MD5 });

    const read = async (store: Store): Promise<string> => {
      const signal = new AbortController().signal;
      const chunks: Uint8Array[] = [];
      for await (const chunk of objectStream(store, OBJECT, {
        parallel: 1,
        sizeHintBytes: undefined,
        signal,
      }))
        chunks.push(chunk);
      return Buffer.concat(chunks).toString();
    };
    expect(await read(opening([identity], 'run'))).toBe(body.toString());
    await expect(read(opening([], 'look'))).rejects.toMatchObject({ status: 69 });
    await expect(read(opening([await newIdentity()], 'look'))).rejects.toMatchObject({ status: 69 });
  });
});
