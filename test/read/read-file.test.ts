// The worker's side in this process, so that the file can be changed between two steps of its reading.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Buffers } from '../../src/read/buffers.ts';
import type { Compressor } from '../../src/read/encode.ts';
import { readFile, type Outlet, type Resources } from '../../src/read/read-file.ts';
import type { BodyHead, ReadJob, WorkerAnswer } from '../../src/read/reading.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { incompressible, md5Of, MiB, ZSTD } from './read-all.ts';

let dir: TestDir;
let file: string;
beforeEach(() => {
  dir = testDir();
  file = path.join(dir.path, 'k.chk');
});
afterEach(() => {
  for (const fd of writers.splice(0)) fs.closeSync(fd);
  dir.remove();
});

const writers: number[] = [];
function openForWriting(): void {
  writers.push(fs.openSync(file, 'r+'));
}

/** Takes each content for compressible and gives it out as it is. `onUse` is called each time before. */
function plainCompressor(onUse: () => void = () => undefined): Compressor {
  return {
    name: 'zstd-napi',
    once: () => {
      onUse();
      return new Uint8Array(1);
    },
    stream: async function* (source) {
      onUse();
      yield* source;
    },
  };
}

function resourcesOf(more: Partial<Resources> = {}): Resources {
  const spool = { dir: os.tmpdir(), limitBytes: 64 * MiB };
  const buffer = new Uint8Array(MiB);
  return {
    root: dir,
    spool,
    buffers: new Buffers(8 * MiB, 3),
    buffer,
    compressor: plainCompressor(),
    ...more,
  };
}

interface Given {
  readonly answer: WorkerAnswer;
  readonly begun: BodyHead | undefined;
  readonly bytes: Buffer;
}

async function readWith(
  resources: Resources,
  more: Partial<ReadJob> = {},
  whileRead?: () => void,
): Promise<Given> {
  const parts: Uint8Array[] = [];
  let begun: BodyHead | undefined;
  const outlet: Outlet = {
    begin: (head) => {
      begun = head;
    },
    ready: () => Promise.resolve(),
    drop: () => undefined,
    part: (bytes) => {
      parts.push(bytes.slice());
      return Promise.resolve();
    },
  };
  const job = { path: 'k.chk', compression: ZSTD, spoolFirst: true, ...more };
  const request = { work: { kind: 'read', job }, smallOnly: false, seen: undefined } as const;
  const reading = readFile(resources, request, outlet, new AbortController().signal);
  whileRead?.();
  const answer = await reading;
  if (answer.kind === 'end') parts.push(answer.bytes);
  return { answer, begun, bytes: Buffer.concat(parts) };
}

const SIZES: readonly [what: string, size: number][] = [
  ['of one part', 6 * MiB],
  ['of several parts, copied first', 40 * MiB],
];

describe('a file', () => {
  it.each(SIZES)('%s may be rewritten while it is compressed', async (_, size) => {
    const content = incompressible(size);
    dir.write('k.chk', content);
    const compressor = plainCompressor(() => fs.writeFileSync(file, Buffer.alloc(size)));
    const { answer, bytes } = await readWith(resourcesOf({ compressor }));
    expect(answer).toMatchObject({ kind: 'end', proof: { md5: md5Of(content), storedBytes: size } });
    expect(bytes.equals(content)).toBe(true);
  });

  it('of one part that gets a writer during the copy is not given out', async () => {
    dir.write('k.chk', incompressible(6 * MiB));
    const buffers = new Buffers(8 * MiB, 3);
    const take = buffers.take.bind(buffers);
    buffers.take = (partBytes) => {
      openForWriting();
      return take(partBytes);
    };
    const { answer } = await readWith(resourcesOf({ buffers }));
    expect(answer.kind).toBe('writer');
  });

  const changes: readonly [string, () => void, WorkerAnswer['kind']][] = [
    ['gets a writer', openForWriting, 'writer'],
    ['grows', () => fs.appendFileSync(file, 'x'), 'moved'],
    ['is cut short', () => fs.truncateSync(file, 30 * MiB), 'moved'],
    ['is replaced', () => fs.renameSync(dir.write('new', 'x'), file), 'moved'],
  ];
  it.each(changes)('that %s while it is copied to the spool is not given out', async (_, change, kind) => {
    dir.write('k.chk', incompressible(40 * MiB));
    // It has read sixteen MiB when it first lets anybody else run.
    const { answer, begun } = await readWith(resourcesOf(), {}, change);
    expect(answer.kind).toBe(kind);
    expect(begun).toBeUndefined();
  });

  it.each(SIZES)('%s that is the baseline is not compressed', async (_, size) => {
    const content = incompressible(size);
    dir.write('k.chk', content);
    let uses = 0;
    const compressor = plainCompressor(() => (uses += 1));
    const { mode } = dir.facts('k.chk');
    const baseline = { kind: 'file', md5: md5Of(content), size, mode } as const;
    const { answer } = await readWith(resourcesOf({ compressor }), { baseline });
    expect(answer).toMatchObject({ kind: 'unchanged', md5: baseline.md5 });
    expect(uses).toBe(0);
  });

  it('with holes takes no more room in the spool than its data, and keeps every byte', async () => {
    fs.writeFileSync(file, '');
    fs.truncateSync(file, 40 * MiB + 5);
    const fd = fs.openSync(file, 'r+');
    fs.writeSync(fd, incompressible(MiB), 0, MiB, 20 * MiB + 7);
    fs.closeSync(fd);
    const spool = { dir: os.tmpdir(), limitBytes: 4 * MiB };
    const { begun, bytes } = await readWith(resourcesOf({ spool }));
    expect(begun).toMatchObject({ spool: 'used', md5: md5Of(bytes) });
    expect(bytes.equals(fs.readFileSync(file))).toBe(true);
  });
});

it('ends the compressor of a body that is abandoned in the middle', async () => {
  dir.write('k.chk', incompressible(40 * MiB));
  let isAtWork = false;
  const compressor: Compressor = {
    name: 'zstd-napi',
    once: () => new Uint8Array(1),
    stream: async function* (source) {
      isAtWork = true;
      try {
        yield* source;
      } finally {
        isAtWork = false;
      }
    },
  };
  const seen: boolean[] = [];
  const outlet: Outlet = {
    begin: () => undefined,
    ready: () => Promise.resolve(),
    drop: () => undefined,
    part: () => {
      seen.push(isAtWork);
      return Promise.reject(new Error('given up'));
    },
  };
  const job = { path: 'k.chk', compression: ZSTD, spoolFirst: false };
  const request = { work: { kind: 'read', job }, smallOnly: false, seen: undefined } as const;
  const reading = readFile(resourcesOf({ compressor }), request, outlet, new AbortController().signal);
  await expect(reading).rejects.toThrow('given up');
  expect(seen).toEqual([true]);
  expect(isAtWork).toBe(false);
});
