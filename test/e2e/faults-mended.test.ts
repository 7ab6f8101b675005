// The fault matrix, first part (docs/fault-matrix.md): what the store and the network do to single requests.
// All of it is mended by trying again: the run ends as if nothing had been, and no word is said.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Fault } from '../s3-server/faults.ts';
import type { Incoming } from '../s3-server/server.ts';
import { startFaultProxy, type NetworkFault } from '../support/fault-proxy.ts';
import { openS3Place, type S3Place } from './s3-place.ts';
import { noise } from './support.ts';

const MIB = 2 ** 20;

let s3: S3Place;
beforeEach(async () => {
  s3 = await openS3Place();
});
afterEach(() => s3.close());

const isRecord = ({ key }: Incoming): boolean => key.includes('.capture/');

/** Does `fault` to the first `count` requests for which `which` is true. */
function first(count: number, which: (incoming: Incoming) => boolean, fault: Fault): { left: () => number } {
  let left = count;
  s3.server.fault = (incoming) => {
    if (left === 0 || !which(incoming)) return undefined;
    left -= 1;
    return fault;
  };
  return { left: () => left };
}

const puts = (incoming: Incoming): boolean => incoming.operation === 'PutObject' && !isRecord(incoming);
const isOperation =
  (operation: Incoming['operation']) =>
  (incoming: Incoming): boolean =>
    incoming.operation === operation;

/** The object `big.0` is the file `seed`. */
const isWhole = (): boolean =>
  Buffer.from(s3.server.versions('run/big.0').at(-1)?.bytes ?? []).equals(
    fs.readFileSync(s3.place.at('seed')),
  );

describe('a small result is stored once, with exit 0 and no word', () => {
  it.each<[string, number, (incoming: Incoming) => boolean, Fault]>([
    ['when the server is busy (503)', 1, puts, { kind: 'answer', status: 503, code: 'SlowDown' }],
    [
      'when it asks for fewer requests (429)',
      1,
      puts,
      { kind: 'answer', status: 429, code: 'TooManyRequests' },
    ],
    [
      'when a load balancer answers 500 without XML',
      3,
      puts,
      { kind: 'answer', status: 500, body: '<html>oops' },
    ],
    ['when it answers 502 with nothing', 3, puts, { kind: 'answer', status: 502, body: '' }],
    [
      'when another write of the key is under way (409)',
      2,
      puts,
      { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' },
    ],
    ['when its answer is lost', 1, puts, { kind: 'lose-answer' }],
    [
      'when it answers 500 and had done it',
      1,
      puts,
      { kind: 'error-after-work', status: 500, code: 'InternalError' },
    ],
    ['when the body is reset', 2, puts, { kind: 'reset', afterBytes: 1 }],
    ['when the listing at the start fails', 3, isOperation('ListObjectsV2'), { kind: 'answer', status: 503 }],
  ])('%s', async (_, count, which, fault) => {
    const { left } = first(count, which, fault);
    const run = s3.run(['-r', 'r.dat'], 'echo data > r.dat');
    expect(await run.status, run.stderr()).toBe(0);
    expect(left()).toBe(0);
    expect(s3.text('r.dat.0')).toBe('data\n');
    expect(s3.versions('r.dat.0')).toBe(1);
    expect(s3.records().at(-1)?.record.kind).toBe('done');
    expect(run.stderr()).not.toMatch(/the store|not stored/);
  });
});

describe('a large result is one whole object, with exit 0, no parts left behind and no word', () => {
  it.each<[string, number, (incoming: Incoming) => boolean, Fault]>([
    [
      'when the connection is reset in the middle of a part',
      2,
      isOperation('UploadPart'),
      { kind: 'reset', afterBytes: MIB },
    ],
    ['when a part is answered with 503', 3, isOperation('UploadPart'), { kind: 'answer', status: 503 }],
    ['when the answer to a part is lost', 1, isOperation('UploadPart'), { kind: 'lose-answer' }],
    [
      'when the answer to the completion is lost',
      1,
      isOperation('CompleteMultipartUpload'),
      { kind: 'lose-answer' },
    ],
    [
      'when the completion answers 200 with an error that is true',
      1,
      isOperation('CompleteMultipartUpload'),
      { kind: 'answer', status: 200, code: 'InternalError' },
    ],
    [
      'when the completion answers 200 with an error and had done it',
      1,
      isOperation('CompleteMultipartUpload'),
      { kind: 'error-after-work', status: 200, code: 'InternalError' },
    ],
    [
      'when the answer to its beginning is lost',
      1,
      isOperation('CreateMultipartUpload'),
      { kind: 'lose-answer' },
    ],
  ])('%s', async (what, count, which, fault) => {
    fs.writeFileSync(s3.place.at('seed'), noise(20 * MIB + 3, 5));
    const { left } = first(count, which, fault);
    // By a rename: a copy that ends at once may be a death's, and waits under another name.
    const run = s3.run(['-r', 'big'], 'cp seed part && mv part big');
    expect(await run.status, run.stderr()).toBe(0);
    expect(left()).toBe(0);
    expect(isWhole()).toBe(true);
    expect(s3.versions('big.0')).toBe(1);
    // Nobody can know the id of an upload whose beginning was never answered: the next attempt sweeps it.
    expect(s3.server.pendingUploads()).toEqual(what.includes('beginning') ? ['run/big.0'] : []);
    expect(run.stderr()).not.toMatch(/the store|not stored/);
  });
});

describe('a record is written once', () => {
  it.each([
    ['the claim', '0001-000000.started'],
    ['what the attempt knows at its start', '0001-000001.started'],
    ['the last record', '.done.json'],
  ])('when the answer to %s is lost', async (_, part) => {
    const { left } = first(1, ({ operation, key }) => operation === 'PutObject' && key.includes(part), {
      kind: 'lose-answer',
    });
    const run = s3.run(['-r', 'r.dat'], 'echo data > r.dat');
    expect(await run.status, run.stderr()).toBe(0);
    expect(left()).toBe(0);
    expect(s3.records().filter(({ key }) => key.includes(part))).toHaveLength(1);
    expect(s3.records().map(({ record }) => record.attempt)).not.toContain(2);
    expect(run.stderr()).not.toMatch(/the store|NOT/);
  });

  it('when its answer and the look for it are lost in an outage: the next one has a key of its own', async () => {
    let lost = false;
    let refused = 0;
    s3.server.fault = ({ operation, key }) => {
      if (operation === 'PutObject' && key.includes('.done') && !lost) {
        lost = true;
        return { kind: 'lose-answer' };
      }
      if (!lost || refused >= 3) return undefined;
      refused += 1;
      return { kind: 'answer', status: 503 };
    };
    const run = s3.run(['-r', 'r.dat'], 'echo data > r.dat');
    expect(await run.status, run.stderr()).toBe(0);
    expect(s3.records().at(-1)?.record.kind).toBe('done');
    expect(run.stderr()).not.toContain('NOT');
  });
});

describe('a checkpoint is restored whole', () => {
  it.each<[string, number, Fault]>([
    ['when the answer breaks off in the middle of its body', 20, { kind: 'cut-answer', afterBytes: MIB }],
    ['when an answer in chunks does', 5, { kind: 'cut-answer', afterBytes: MIB, inChunks: true }],
    ['when the answer is a 503', 20, { kind: 'answer', status: 503 }],
    ['when the connection is lost before the answer', 20, { kind: 'lose-answer' }],
  ])('%s', async (_, sizeMib, fault) => {
    const seed = noise(sizeMib * MIB, 8);
    fs.writeFileSync(s3.place.at('seed'), seed);
    expect(await s3.run(['-k', 'k.chk'], 'cp seed k.chk').status).toBe(0);
    s3.place.freshWork();
    const { left } = first(3, (incoming) => incoming.operation === 'GetObject' && !isRecord(incoming), fault);
    const second = s3.run(['-k', 'k.chk', '--keep'], 'true');
    expect(await second.status, second.stderr()).toBe(0);
    expect(left()).toBe(0);
    expect(fs.readFileSync(s3.place.at('k.chk')).equals(seed)).toBe(true);
  });
});

it.each<[string, Fault]>([
  ['breaks off in the middle of its body', { kind: 'cut-answer', afterBytes: 100 }],
  ['in chunks does', { kind: 'cut-answer', afterBytes: 100, inChunks: true }],
])('a record is read whole when the answer %s', async (_, fault) => {
  expect(await s3.run(['-k', 'k.chk'], 'echo 1 > k.chk').status).toBe(0);
  s3.place.freshWork();
  const { left } = first(3, (incoming) => incoming.operation === 'GetObject' && isRecord(incoming), fault);
  const second = s3.run(['-k', 'k.chk', '--keep'], 'cat k.chk');
  expect(await second.status, second.stderr()).toBe(0);
  expect(left()).toBe(0);
});

describe('behind a bad network a large result is one whole object', () => {
  it.each<[string, NetworkFault]>([
    ['that resets connections after 3 MiB', { kind: 'reset', afterBytes: 3 * MIB }],
    ['that delays every piece', { kind: 'latency', ms: 5 }],
  ])('%s', async (_, fault) => {
    const proxy = await startFaultProxy(s3.server.url);
    try {
      fs.writeFileSync(s3.place.at('seed'), noise(9 * MIB, 6));
      proxy.fault = fault;
      // What is reset after 3 MiB can never pass: the fault ends when it has hit.
      if (fault.kind === 'reset') {
        s3.server.fault = () => {
          if (proxy.hits >= 2) proxy.fault = undefined;
          return undefined;
        };
      }
      const run = s3.run(['-r', 'big'], 'cp seed big', { AWS_ENDPOINT_URL_S3: proxy.url });
      expect(await run.status, run.stderr()).toBe(0);
      expect(proxy.hits).toBeGreaterThan(1);
      expect(s3.versions('big.0')).toBe(1);
      expect(isWhole()).toBe(true);
      expect(s3.server.pendingUploads()).toEqual([]);
    } finally {
      await proxy.stop();
    }
  });
});
