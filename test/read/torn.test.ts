// Back-pressure makes these tests exact: with the first part of five in the reader's hands, a worker has read
// less than three. Whatever happens to the file then, happens while it is being read.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { setMtime } from '../../src/native/files.ts';
import { type Body, SnapshotMoved } from '../../src/read/reading.ts';
import { openWorkers, type Workers } from '../../src/read/workers.ts';
import { bundleEntry } from '../support/bundle-entry.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { bodyOf, md5Of, MiB, RAW, readAll, slightlyCompressible, ZSTD } from './read-all.ts';

const SIZE = 40 * MiB;
let entry: string;
let dir: TestDir;
let workers: Workers;
const content = slightlyCompressible(SIZE);
const job = { path: 'k.chk', compression: ZSTD, spoolFirst: false };

beforeAll(async () => {
  entry = await bundleEntry('src/read/worker.ts');
});

beforeEach(() => {
  dir = testDir();
  dir.write('k.chk', content);
  workers = openWorkers({
    root: dir,
    count: 1,
    entry,
    smallBytes: 0,
    spoolDir: dir.path,
    spoolLimitBytes: 64 * MiB,
  });
});

afterEach(async () => {
  await workers.close();
  dir.remove();
});

const open: number[] = [];
afterAll(() => open.forEach((fd) => fs.closeSync(fd)));

/** `hasWriter` where it is certain: the worker may look while the change is still being made. */
const changes: readonly [how: string, change: (file: string) => void, hasWriter?: boolean][] = [
  ['is rewritten in place', (file) => fs.writeFileSync(file, content)],
  ['has one byte of its end changed', (file) => writeByte(file, SIZE - 1)],
  ['has one byte changed that was read already', (file) => writeByte(file, 0)],
  ['is cut short', (file) => fs.truncateSync(file, SIZE - 1)],
  ['is emptied', (file) => fs.truncateSync(file, 0)],
  ['grows', (file) => fs.appendFileSync(file, 'x')],
  ['is replaced by a rename', (file) => replace(file), false],
  ['is given older times (cp -p)', (file) => fs.utimesSync(file, 1, 1), false],
  ['is deleted', (file) => fs.unlinkSync(file), false],
  ['is opened for writing', (file) => void open.push(fs.openSync(file, 'r+')), true],
];

it.each(changes)(
  'never gives out the last part of a file that %s while it is read',
  async (_, change, hasWriter) => {
    const body = bodyOf(await workers.read(job));
    let received = 0;
    const reading = (async () => {
      for await (const part of body.parts) {
        if (received === 0) change(path.join(dir.path, 'k.chk'));
        received += part.length;
      }
    })();
    const error = await reading.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(SnapshotMoved);
    expect(error).toMatchObject(hasWriter === undefined ? {} : { hasWriter });
    expect(received).toBeGreaterThan(0);
    expect(received).toBeLessThan(SIZE);
    await expect(body.done).rejects.toBe(error);
  },
);

it('gives a changed file up at the next bytes that it reads, not after all of it was sent', async () => {
  const body = bodyOf(await workers.read(job));
  let received = 0;
  const reading = (async () => {
    for await (const part of body.parts) {
      if (received === 0) writeByte(path.join(dir.path, 'k.chk'), 0);
      received += part.length;
    }
  })();
  await expect(reading).rejects.toBeInstanceOf(SnapshotMoved);
  // One part was in the reader's hands and one on its way; another is sent only if it was read before.
  expect(received).toBeLessThan(SIZE / 2);
});

describe('a state that is needed even if its name is removed', () => {
  const file = (): string => path.join(dir.path, 'k.chk');

  it.each<[how: string, change: () => void]>([
    ['is deleted', () => fs.unlinkSync(file())],
    ['is replaced by a rename', () => replace(file())],
    ['is renamed', () => fs.renameSync(file(), `${file()}.1`)],
    ['gets another mode', () => fs.chmodSync(file(), 0o400)],
  ])('is given out whole if the file %s while it is read', async (_, change) => {
    const { body, received } = await readAndChange(change);
    expect(Buffer.concat(received).equals(content)).toBe(true);
    expect((await body.done).md5).toBe(md5Of(content));
  });

  it.each<[how: string, change: (fd: number) => void]>([
    ['is written to', (fd) => fs.writeSync(fd, 'other', 0)],
    ['is written to, and given its time back', (fd) => writeAndHide(fd)],
  ])('is not given out if the file %s before its name is removed', async (_, change) => {
    const reading = readAndChange(() => {
      const fd = fs.openSync(file(), 'r+');
      change(fd);
      fs.closeSync(fd);
      fs.unlinkSync(file());
    });
    await expect(reading).rejects.toBeInstanceOf(SnapshotMoved);
  });

  it('is read from an open file, whatever is at its path by then', async () => {
    const facts = dir.facts('k.chk');
    const fd = fs.openSync(file(), 'r');
    open.push(fd);
    dir.write('k.chk.new', 'newer');
    fs.renameSync(`${file()}.new`, file());
    const held = { fd, facts };
    const { plain } = await readAll(bodyOf(await workers.read({ ...job, compression: RAW, held })));
    expect(plain.equals(content)).toBe(true);
    const other = { fd, facts: { ...facts, mtimeNs: '1' } };
    expect(await workers.read({ ...job, held: other })).toEqual({ kind: 'moved' });
  });

  /** With the first part of many in our hands, most of the file is still to be read. */
  async function readAndChange(change: () => void): Promise<{ body: Body; received: readonly Uint8Array[] }> {
    const body = bodyOf(await workers.read({ ...job, compression: RAW, outlivesName: true }));
    const received: Uint8Array[] = [];
    for await (const part of body.parts) {
      if (received.length === 0) change();
      received.push(Buffer.from(part));
    }
    return { body, received };
  }

  /** Changes a byte that was read already; only the ctime tells. */
  function writeAndHide(fd: number): void {
    const { mtimeNs } = fs.fstatSync(fd, { bigint: true });
    fs.writeSync(fd, Buffer.of((content[0] ?? 0) ^ 1), 0, 1, 0);
    setMtime(fd, String(mtimeNs));
  }
});

it.each(changes.slice(0, 4))(
  'gives out all of a spooled file that %s while it is sent',
  async (_, change) => {
    const body = bodyOf(await workers.read({ ...job, spoolFirst: true }));
    expect(body).toMatchObject({ spool: 'used', compressed: true });
    change(path.join(dir.path, 'k.chk'));
    const { plain, proof } = await readAll(body);
    expect(plain.equals(content)).toBe(true);
    expect(proof.md5).toBe(body.md5);
  },
);

it('leaves no name in the spool, not even while it is in use', async () => {
  const body = bodyOf(await workers.read({ ...job, spoolFirst: true }));
  expect(dir.names('')).toEqual(['k.chk']);
  await readAll(body);
  expect(dir.names('')).toEqual(['k.chk']);
});

it.each([
  ['is too small', { spoolDir: os.tmpdir(), spoolLimitBytes: SIZE / 2 }],
  ['cannot be made', { spoolDir: '/nonexistent', spoolLimitBytes: 64 * MiB }],
  ['was not given', { spoolDir: undefined, spoolLimitBytes: 64 * MiB }],
])('reads the file itself while it sends, and says so, if the spool %s', async (_, spool) => {
  const other = openWorkers({ root: dir, count: 1, entry, smallBytes: 0, ...spool });
  const body = bodyOf(await other.read({ ...job, spoolFirst: true }));
  expect(body).toMatchObject({ spool: 'full', md5: undefined });
  expect((await readAll(body)).plain.equals(content)).toBe(true);
  await other.close();
});

function writeByte(file: string, at: number): void {
  const fd = fs.openSync(file, 'r+');
  fs.writeSync(fd, Buffer.of((content[at] ?? 0) ^ 1), 0, 1, at);
  fs.closeSync(fd);
}

function replace(file: string): void {
  fs.writeFileSync(`${file}.new`, content);
  fs.renameSync(`${file}.new`, file);
}
