// The worker's reading of a file that stays open: real files, real writers, a real worker thread.
import fs from 'node:fs';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TAIL_BYTES, type FilePiece } from '../../src/model/checkpoint/companions.ts';
import { openWorkers, type Workers } from '../../src/read/workers.ts';
import { SnapshotMoved, type RangeJob } from '../../src/read/reading.ts';
import { bundleEntry } from '../support/bundle-entry.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { bodyOf, compressible, incompressible, md5Of, MiB, RAW, readAll, ZSTD } from './read-all.ts';

const NAME = 'md.log';

let entry: string;
let dir: TestDir;
let workers: Workers;
let writer: number;

beforeAll(async () => {
  entry = await bundleEntry('src/read/worker.ts');
});
beforeEach(() => {
  dir = testDir();
  workers = openWorkers({ root: dir, count: 2, entry, smallBytes: 0, spoolLimitBytes: MiB });
  writer = fs.openSync(`${dir.path}/${NAME}`, 'w');
});
afterEach(async () => {
  fs.closeSync(writer);
  await workers.close();
  dir.remove();
});

function append(content: Uint8Array): void {
  fs.writeSync(writer, content);
}

function piece(content: Buffer, first: number, end: number): FilePiece {
  return { first, size: end - first, md5: md5Of(content.subarray(first, end)) };
}

/** A job for all that is there now, with these changes. */
function job(more: Partial<RangeJob> = {}): RangeJob {
  const { dev, ino, size } = dir.facts(NAME);
  return {
    path: NAME,
    file: { dev, ino },
    known: [],
    tail: undefined,
    end: size,
    compression: ZSTD,
    ...more,
  };
}

const firstOf = async (more: Partial<RangeJob>): Promise<number | undefined> => {
  const body = bodyOf(await workers.range(job(more)));
  await readAll(body);
  return body.first;
};

describe('a range of a file that is open for writing', () => {
  it.each([0, 1, MiB, 8 * MiB, 8 * MiB + 1, 20 * MiB])('has all of its %i bytes', async (size) => {
    const content = incompressible(size);
    append(content);
    const { plain, proof } = await readAll(bodyOf(await workers.range(job({ compression: RAW }))));
    expect(plain.equals(content)).toBe(true);
    expect(proof.md5).toBe(md5Of(content));
    expect(proof.tail).toEqual(piece(content, Math.max(0, size - TAIL_BYTES), size));
  });

  it('ends where it was requested to, although the file has grown', async () => {
    const content = compressible(3 * MiB);
    append(content);
    const asked = job();
    append(Buffer.from('more'));
    const { plain } = await readAll(bodyOf(await workers.range(asked)));
    expect(plain.equals(content)).toBe(true);
  });

  it('begins after the known pieces if the tail is unchanged', async () => {
    const content = incompressible(MiB);
    append(content);
    const known = [piece(content, 0, 300_000), piece(content, 300_000, 900_000)];
    const tail = piece(content, 900_000 - TAIL_BYTES, 900_000);
    const body = bodyOf(await workers.range(job({ known, tail, compression: RAW })));
    expect(body.first).toBe(900_000);
    const { plain, proof } = await readAll(body);
    expect(plain.equals(content.subarray(900_000))).toBe(true);
    expect(proof.tail).toEqual(piece(content, MiB - TAIL_BYTES, MiB));
  });

  it('does not read the known pieces then', async () => {
    const content = incompressible(MiB);
    append(content);
    const known = [{ first: 0, size: 900_000, md5: md5Of(Buffer.from('never looked at')) }];
    const tail = piece(content, 900_000 - TAIL_BYTES, 900_000);
    expect(await firstOf({ known, tail })).toBe(900_000);
    expect(await firstOf({ known })).toBe(0);
  });

  it.each([
    [100, false, 0],
    [400_000, false, 300_000],
    [899_999, false, 300_000],
    [899_999, true, 300_000],
    [900_000, false, 900_000],
    [900_000, true, 900_000],
  ])(
    'begins where the file differs from the known pieces: byte %i changed, tail: %s',
    async (changed, byTail, first) => {
      const content = incompressible(MiB);
      append(content);
      const known = [piece(content, 0, 300_000), piece(content, 300_000, 900_000)];
      const tail = byTail ? piece(content, 900_000 - TAIL_BYTES, 900_000) : undefined;
      fs.writeSync(writer, Buffer.of((content[changed] ?? 0) ^ 1), 0, 1, changed);
      expect(await firstOf({ known, tail })).toBe(first);
    },
  );

  it('is empty when nothing is new', async () => {
    const content = incompressible(1000);
    append(content);
    const body = bodyOf(await workers.range(job({ known: [piece(content, 0, 1000)] })));
    expect(body.first).toBe(1000);
    expect((await readAll(body)).plain).toHaveLength(0);
  });
});

describe('a file that differs from the one that was examined', () => {
  it('counts as moved when it was truncated', async () => {
    append(incompressible(1000));
    const asked = job();
    fs.ftruncateSync(writer, 999);
    expect(await workers.range(asked)).toEqual({ kind: 'moved' });
  });

  it('counts as moved when another file was renamed to its path', async () => {
    append(incompressible(1000));
    const asked = job();
    dir.write('new', 'x'.repeat(1000));
    fs.renameSync(`${dir.path}/new`, `${dir.path}/${NAME}`);
    expect(await workers.range(asked)).toEqual({ kind: 'moved' });
  });

  it('counts as gone when it was removed, and is refused when it is a link', async () => {
    append(incompressible(1000));
    const asked = job();
    fs.rmSync(`${dir.path}/${NAME}`);
    expect(await workers.range(asked)).toEqual({ kind: 'gone' });
    fs.symlinkSync('/etc/hostname', `${dir.path}/${NAME}`);
    expect(await workers.range(asked)).toMatchObject({ kind: 'refused' });
  });

  it('gives no last part when it is truncated while it is read', async () => {
    append(incompressible(40 * MiB));
    const body = bodyOf(await workers.range(job({ compression: RAW })));
    await body.parts.next();
    fs.ftruncateSync(writer, 1000);
    await expect(readAll(body)).rejects.toBeInstanceOf(SnapshotMoved);
  });
});

it('a large range does not block small files', async () => {
  append(incompressible(64 * MiB));
  dir.write('r.dat', 'small');
  const large = bodyOf(await workers.range(job({ compression: RAW })));
  expect(
    (
      await readAll(bodyOf(await workers.read({ path: 'r.dat', compression: RAW, spoolFirst: false })))
    ).plain.toString(),
  ).toBe('small');
  await large.parts.return?.();
});
