// Which rate of the link a reading is told with --compression zstd:auto.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { LinkRate } from '../../src/model/link-rate.ts';
import type { Compression } from '../../src/model/format/settings.ts';
import type { Body, JobCompression, PartIterator, ReadJob } from '../../src/read/reading.ts';
import type { PutOptions, PutOutcome } from '../../src/store/contract/store.ts';
import { Bandwidth } from '../../src/upload/bandwidth.ts';
import { sendFile, type Sender, type SendJob } from '../../src/upload/send.ts';

const MB = 1e6;
const PART_BYTES = 2 * MB;
const PART_MS = 500;
const AUTO: Compression = { kind: 'zstd', level: 'auto' };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Parts that are there when they are asked for. */
function largeBody(): Body {
  const parts = (async function* () {
    for (let n = 0; n < 6; n += 1) yield new Uint8Array(PART_BYTES);
  })();
  const facts = { dev: '1', ino: '1', size: 1, mtimeNs: '1', ctimeNs: '1', mode: 0o644, links: 1 };
  const proof = { md5: '0'.repeat(32), facts, storedBytes: 6 * PART_BYTES };
  const iterator: PartIterator = Object.assign(parts, { release: () => undefined });
  return {
    kind: 'body',
    facts,
    compressed: true,
    spool: 'unused',
    parts: iterator,
    done: Promise.resolve(proof),
  };
}

/** A store that takes half a second for each part: 4 MB/s. */
async function put(_: string, body: unknown, { onSent }: PutOptions): Promise<PutOutcome> {
  for await (const part of body as AsyncIterable<Uint8Array>) {
    await new Promise((resolve) => {
      setTimeout(resolve, PART_MS);
    });
    onSent?.(part.length);
  }
  return { kind: 'stored', tag: '1' };
}

/** Sends one large file; returns how the reading was to compress it. */
async function send(sender: Pick<Sender, 'compression' | 'bandwidth' | 'link'>): Promise<JobCompression> {
  const asked: JobCompression[] = [];
  const read = async ({ compression }: ReadJob): Promise<Body> => {
    asked.push(compression);
    return largeBody();
  };
  const rest = {
    workers: { read },
    store: { put },
    newId: () => 'push',
    attempt: 1,
    runToken: 'run',
    index: '0',
  };
  const job: SendJob = {
    path: 'r.dat',
    keyOf: () => 'r.dat.0.zst',
    baseline: undefined,
    spoolFirst: false,
    precondition: { kind: 'any' },
  };
  const sent = sendFile({ ...sender, ...rest } as unknown as Sender, job);
  await vi.advanceTimersByTimeAsync(60_000);
  expect((await sent).kind).toBe('stored');
  const [compression] = asked;
  if (compression === undefined) throw new Error('nothing was read');
  return compression;
}

const auto = (linkBytesPerS: number | undefined): JobCompression => ({
  kind: 'zstd',
  level: 1,
  linkBytesPerS,
});

it('nothing is sent of what may not stand under this key, and its memory is given up', async () => {
  const body = largeBody();
  const asked: unknown[] = [];
  const refuse = (): never => {
    throw new Error('nothing may be sent');
  };
  const sender = {
    compression: AUTO,
    workers: { read: async () => body },
    store: { put: refuse },
    newId: () => 'p',
  };
  const sent = await sendFile(sender as unknown as Sender, {
    path: 'r.dat',
    keyOf: () => 'r.dat.0',
    baseline: undefined,
    spoolFirst: false,
    precondition: { kind: 'any' },
    isStaged: (read) => asked.push(read) > 0,
  });
  expect(sent).toEqual({ kind: 'staged' });
  expect(asked).toEqual([body.facts]);
  expect((await body.parts.next()).done).toBe(true);
});

it('is none for the first file, and then what was measured', async () => {
  const sender = { compression: AUTO, bandwidth: undefined, link: new LinkRate() };
  expect(await send(sender)).toEqual(auto(undefined));
  expect(await send(sender)).toEqual(auto(4 * MB));
});

it('is the limit of --bandwidth, and nothing that was measured below it once that is lifted', async () => {
  const bandwidth = new Bandwidth(MB);
  const sender = { compression: AUTO, bandwidth, link: new LinkRate() };
  expect([await send(sender), await send(sender)]).toEqual([auto(MB), auto(MB)]);
  bandwidth.lift();
  expect([await send(sender), await send(sender)]).toEqual([auto(undefined), auto(4 * MB)]);
});

it('is not told where a level was chosen', async () => {
  const compression: Compression = { kind: 'zstd', level: 6 };
  const sender = { compression, bandwidth: new Bandwidth(MB), link: undefined };
  expect(await send(sender)).toEqual({ kind: 'zstd', level: 6 });
});
