import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { getFrameContentSize } from 'zstd-napi/binding.js';
import { decodePath } from '../../src/model/path.ts';
import type { FromWorker, ReadJob } from '../../src/read/reading.ts';
import { SMALL_BYTES } from '../../src/read/small-file.ts';
import { openWorkers, startThread, type Workers, type WorkersOptions } from '../../src/read/workers.ts';
import { bundleEntry } from '../support/bundle-entry.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { bodyOf, compressible, incompressible, md5Of, MiB, RAW, readAll, ZSTD } from './read-all.ts';

let entry: string;
let dir: TestDir;
let workers: Workers;

beforeAll(async () => {
  entry = await bundleEntry('src/read/worker.ts');
});

beforeEach(() => {
  dir = testDir();
  workers = open();
});

afterEach(async () => {
  await workers.close();
  dir.remove();
});

function open(options: Partial<WorkersOptions> = {}): Workers {
  return openWorkers({ root: dir, count: 2, entry, spoolLimitBytes: 64 * MiB, smallBytes: 0, ...options });
}

function job(name: string, more: Partial<ReadJob> = {}): ReadJob {
  return { path: name, compression: ZSTD, spoolFirst: false, ...more };
}

describe.each([
  ['by a worker', 0],
  ['on the asking thread, if it is small', SMALL_BYTES],
])('read %s:', (_, smallBytes) => {
  beforeEach(async () => {
    await workers.close();
    workers = open({ smallBytes });
  });

  describe('the body of a reading', () => {
    const PART = 8 * MiB;
    it.each([
      0,
      1,
      1000,
      SMALL_BYTES,
      SMALL_BYTES + 1,
      MiB - 1,
      MiB,
      MiB + 1,
      PART - 1,
      PART,
      PART + 1,
      2 * PART,
      2 * PART + 1,
    ])('has the unchanged bytes of an incompressible file of %i bytes', async (size) => {
      const content = incompressible(size);
      dir.write('r.dat', content);
      const body = bodyOf(await workers.read(job('r.dat')));
      expect(body).toMatchObject({ compressed: false, facts: dir.facts('r.dat') });
      const { plain, partSizes, proof } = await readAll(body);
      expect(plain.equals(content)).toBe(true);
      expect(partSizes.slice(0, -1).every((partSize) => partSize === PART)).toBe(true);
      expect(partSizes).toHaveLength(Math.max(1, Math.ceil(size / PART)));
      expect(proof).toEqual({ md5: md5Of(content), facts: dir.facts('r.dat'), storedBytes: size });
    });

    it.each([1000, SMALL_BYTES, SMALL_BYTES + 1, MiB - 1, MiB, MiB + 1, PART, 5 * PART])(
      'is one zstd frame with size and checksum for a compressible file of %i bytes',
      async (size) => {
        const content = compressible(size);
        dir.write('r.dat', content);
        const body = bodyOf(await workers.read(job('r.dat')));
        expect(body.compressed).toBe(true);
        const { plain, stored, proof } = await readAll(body);
        expect(plain.equals(content)).toBe(true);
        expect(getFrameContentSize(stored)).toBe(size);
        expect((stored[4] ?? 0) & 4, 'checksum flag of the frame header').toBe(4);
        expect(proof).toMatchObject({ md5: md5Of(content), storedBytes: stored.length });
      },
    );

    it('keeps every byte, whatever the content and the size', async () => {
      const pieces = fc.array(
        fc.record({ byte: fc.nat(255), random: fc.boolean(), length: fc.integer({ min: 0, max: 3 * MiB }) }),
        { maxLength: 5 },
      );
      await fc.assert(
        fc.asyncProperty(
          pieces,
          fc.constantFrom(ZSTD, RAW),
          fc.boolean(),
          async (list, compression, spoolFirst) => {
            const content = Buffer.concat(
              list.map(({ byte, random, length }) =>
                random ? incompressible(length) : Buffer.alloc(length, byte),
              ),
            );
            dir.write('r.dat', content);
            const body = bodyOf(await workers.read(job('r.dat', { compression, spoolFirst })));
            const { plain, proof, stored } = await readAll(body);
            expect(plain.equals(content)).toBe(true);
            expect(proof.md5).toBe(md5Of(content));
            expect(proof.storedBytes).toBe(stored.length);
            expect(stored.length).toBeLessThanOrEqual(content.length);
          },
        ),
        { numRuns: 40 },
      );
    });

    it('knows the md5 of a file of one part before the first byte leaves, and of a larger file afterwards', async () => {
      dir.write('small', incompressible(8 * MiB));
      dir.write('large', incompressible(8 * MiB + 1));
      const small = bodyOf(await workers.read(job('small')));
      expect(small.md5).toBe(md5Of(fs.readFileSync(path.join(dir.path, 'small'))));
      const large = bodyOf(await workers.read(job('large')));
      expect(large.md5).toBeUndefined();
      await readAll(large);
    });

    it('is not compressed unless that was requested', async () => {
      dir.write('r.dat', compressible(3 * MiB));
      const body = bodyOf(await workers.read(job('r.dat', { compression: RAW })));
      expect(body.compressed).toBe(false);
      expect((await readAll(body)).stored).toHaveLength(3 * MiB);
    });

    it('has the bytes of a file whose name is not UTF-8', async () => {
      const name = Buffer.from([0x72, 0xff, 0xc3, 0x28]);
      fs.writeFileSync(Buffer.concat([Buffer.from(`${dir.path}/`), name]), 'content');
      const { plain } = await readAll(bodyOf(await workers.read(job(decodePath(name)))));
      expect(plain.toString()).toBe('content');
    });
  });

  describe('an unchanged file', () => {
    it.each([
      ['small', 10_000],
      ['large', 20 * MiB],
    ])('gives no body when it is %s', async (_, size) => {
      const content = compressible(size);
      dir.write('r.dat', content);
      const { mode } = dir.facts('r.dat');
      const baseline = { kind: 'file', md5: md5Of(content), size, mode } as const;
      expect(await workers.read(job('r.dat', { baseline }))).toEqual({
        kind: 'unchanged',
        md5: baseline.md5,
        facts: dir.facts('r.dat'),
      });
    });

    it.each([
      ['small', 10_000],
      ['large', 20 * MiB],
    ])(
      'is distinguished from a %s one with other permissions, and from a link to that text',
      async (_, size) => {
        const content = compressible(size);
        dir.write('r.dat', content);
        const { mode } = dir.facts('r.dat');
        const same = { kind: 'file', md5: md5Of(content), size, mode } as const;
        for (const baseline of [
          { ...same, mode: mode ^ 0o100 },
          { ...same, kind: 'link' as const },
        ]) {
          const body = bodyOf(await workers.read(job('r.dat', { baseline })));
          expect((await readAll(body)).plain.equals(content)).toBe(true);
        }
      },
    );

    it.each([
      ['small', 10_000],
      ['large', 20 * MiB],
    ])('is distinguished from a %s one of the same size, whose md5 is then known', async (_, size) => {
      const content = incompressible(size);
      dir.write('r.dat', content);
      const { mode } = dir.facts('r.dat');
      const baseline = { kind: 'file', md5: md5Of(Buffer.alloc(size)), size, mode } as const;
      const body = bodyOf(await workers.read(job('r.dat', { baseline })));
      expect(body.md5).toBe(md5Of(content));
      expect((await readAll(body)).plain.equals(content)).toBe(true);
    });
  });

  describe('what is not read', () => {
    it('is a file with a writer', async () => {
      const writer = fs.openSync(dir.write('r.dat', 'half of'), 'a');
      expect(await workers.read(job('r.dat'))).toEqual({ kind: 'writer' });
      expect(await workers.md5('r.dat')).toEqual({ kind: 'writer' });
      fs.closeSync(writer);
      expect(await workers.read(job('r.dat'))).toMatchObject({ kind: 'body' });
    });

    it('is a file in another state than the expected one', async () => {
      dir.write('r.dat', 'first');
      const expected = dir.facts('r.dat');
      expect(await workers.read(job('r.dat', { expected }))).toMatchObject({ kind: 'body' });
      dir.write('r.dat', 'later');
      expect(await workers.read(job('r.dat', { expected }))).toEqual({ kind: 'moved' });
    });

    it('is a file that does not exist', async () => {
      dir.write('file', '');
      expect(await workers.read(job('none'))).toEqual({ kind: 'gone' });
      expect(await workers.read(job('file/below'))).toEqual({ kind: 'gone' });
      expect(await workers.md5('none')).toEqual({ kind: 'gone' });
    });

    it('is a symbolic link, or a file behind one', async () => {
      dir.write('real/r.dat', 'content');
      fs.symlinkSync('real/r.dat', path.join(dir.path, 'link'));
      fs.symlinkSync('real', path.join(dir.path, 'way'));
      const refused = { kind: 'refused', why: 'it is a symbolic link, or stands behind one' };
      expect(await workers.read(job('link'))).toEqual(refused);
      expect(await workers.read(job('way/r.dat'))).toEqual(refused);
    });

    it('is anything but a regular file, without waiting for a FIFO', async () => {
      const { libcFunction } = await import('../../src/native/libc.ts');
      libcFunction<[string, number]>('int mkfifo(const char*, unsigned int)')(
        path.join(dir.path, 'fifo'),
        0o600,
      );
      fs.mkdirSync(path.join(dir.path, 'dir'));
      const refused = { kind: 'refused', why: 'it is not a regular file' };
      expect(await workers.read(job('fifo'))).toEqual(refused);
      expect(await workers.read(job('dir'))).toEqual(refused);
    });
  });
});

it('gives the md5 of a file of any size', async () => {
  for (const size of [0, 5, 20 * MiB]) {
    const content = incompressible(size);
    dir.write('r.dat', content);
    expect(await workers.md5('r.dat')).toEqual({
      kind: 'md5',
      md5: md5Of(content),
      facts: dir.facts('r.dat'),
    });
  }
});

it('compresses with zstd-napi if that is installed', async () => {
  expect(await workers.compressor()).toBe('zstd-napi');
});

it('a worker gets no warning when it closes a file: nobody would read it, and it would be kept for ever', async () => {
  dir.write('file', 'x');
  const program = await bundleEntry('test/read/fixtures/open-and-close.ts');
  const said = await new Promise<FromWorker>((message, death) => {
    startThread(program, { spool: { dir: dir.path, limitBytes: 0 } }, { message, death });
  });
  expect(said).toEqual([]);
});
