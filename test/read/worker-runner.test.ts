import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { addressOf } from '../../src/native/libc.ts';
import { openWorkers, type Workers, type WorkersOptions } from '../../src/read/workers.ts';
import { bundleEntry } from '../support/bundle-entry.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { bodyOf, incompressible, MiB, RAW, readAll, slightlyCompressible, ZSTD } from './read-all.ts';

let entry: string;
let dir: TestDir;
const opened: Workers[] = [];

beforeAll(async () => {
  entry = await bundleEntry('src/read/worker.ts');
});

beforeEach(() => {
  dir = testDir();
  for (const name of ['large-1', 'large-2', 'large-3']) dir.write(name, incompressible(36 * MiB));
  dir.write('small', 'content');
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map((workers) => workers.close()));
  dir.remove();
});

function open(options: Partial<WorkersOptions> = {}): Workers {
  const workers = openWorkers({ root: dir, count: 2, entry, smallBytes: 0, spoolLimitBytes: 0, ...options });
  opened.push(workers);
  return workers;
}

function job(name: string) {
  return { path: name, compression: RAW, spoolFirst: false };
}

it('reads a small file while large ones are sent and wait', async () => {
  const workers = open();
  const first = bodyOf(await workers.read(job('large-1')));
  const second = workers.read(job('large-2'));
  const third = workers.read({ ...job('large-3'), expected: dir.facts('large-3') });
  expect((await readAll(bodyOf(await workers.read(job('small'))))).plain.toString()).toBe('content');
  await readAll(first);
  await readAll(bodyOf(await second));
  await readAll(bodyOf(await third));
});

it('reads large files one after the other, in the order of the requests', async () => {
  const workers = open({ count: 1 });
  const order: string[] = [];
  await Promise.all(
    ['large-2', 'large-1', 'large-3'].map(async (name) => {
      const body = bodyOf(await workers.read(job(name)));
      order.push(name);
      await readAll(body);
    }),
  );
  expect(order).toEqual(['large-2', 'large-1', 'large-3']);
});

it('sends at most one part that was not requested', async () => {
  const workers = open({ count: 1 });
  const { parts } = bodyOf(await workers.read(job('large-1')));
  await parts.next();
  // A worker that does not wait to be asked is at the end of the file by the time that another has read it twice.
  for (let n = 0; n < 2; n += 1) await readAll(bodyOf(await open({ count: 1 }).read(job('large-1'))));
  // One that has waited now finds the file of another size.
  fs.truncateSync(path.join(dir.path, 'large-1'), 20 * MiB);
  expect((await parts.next()).value).toHaveLength(8 * MiB);
  await expect(parts.next()).rejects.toThrow('large-1 was changed while it was being read');
});

it('is free again when a body is abandoned, read or not', async () => {
  const workers = open({ count: 1 });
  const unread = bodyOf(await workers.read(job('large-1')));
  await unread.parts.return?.();
  const begun = bodyOf(await workers.read(job('large-2')));
  for await (const part of begun.parts) if (part.length > 0) break;
  await expect(begun.done).rejects.toThrow('the reading was given up');
  expect((await readAll(bodyOf(await workers.read(job('large-3'))))).plain).toHaveLength(36 * MiB);
});

it('still compresses after bodies that were abandoned in the middle', async () => {
  const content = slightlyCompressible(36 * MiB);
  dir.write('k.chk', content);
  const workers = open({ count: 1 });
  const compressed = { ...job('k.chk'), compression: ZSTD };
  for (let parts = 0; parts < 3; parts += 1) {
    const givenUp = bodyOf(await workers.read(compressed));
    for (let n = 0; n < parts; n += 1) await givenUp.parts.next();
    await givenUp.parts.return?.();
    expect((await readAll(bodyOf(await workers.read(compressed)))).plain.equals(content)).toBe(true);
  }
});

it('reuses the memory that the reader releases, or still holds when it gives up', async () => {
  const workers = open({ count: 1 });
  const content = fs.readFileSync(path.join(dir.path, 'large-1'));
  const places = new Set<bigint>();
  for (let parts = 0; parts < 8; parts += 1) {
    const givenUp = bodyOf(await workers.read(job('large-1')));
    for (let n = 0; n < Math.min(parts, 4); n += 1) {
      const { value } = await givenUp.parts.next();
      if (value !== undefined) places.add(addressOf(value));
    }
    await givenUp.parts.return?.();
    const { parts: all } = bodyOf(await workers.read(job('large-1')));
    let at = 0;
    for await (const part of all) {
      expect(content.subarray(at, at + part.length).equals(part)).toBe(true);
      at += part.length;
      places.add(addressOf(part));
      all.release(part);
    }
    expect(at).toBe(content.length);
    await all.return?.();
  }
  // Those that one reader had in its hands at once, one that is ready, and one that is filled.
  expect(places.size).toBeLessThanOrEqual(6);
});

it('reads a second large file at once only while cores are idle', async () => {
  let idle = 0;
  const workers = open({ count: 'auto', idleCores: () => idle });
  const first = bodyOf(await workers.read(job('large-1')));
  let isBegun = false;
  const second = workers.read(job('large-2')).finally(() => {
    isBegun = true;
  });
  // A file of one part has a worker of its own, and others have their own threads.
  await readAll(bodyOf(await workers.read(job('small'))));
  await readAll(bodyOf(await open({ count: 1 }).read(job('large-3'))));
  expect(isBegun).toBe(false);
  idle = 64;
  // Looked at again when another file comes.
  const third = workers.read(job('large-3'));
  const [secondBody, thirdBody] = [bodyOf(await second), bodyOf(await third)];
  await Promise.all([readAll(first), readAll(secondBody), readAll(thirdBody)]);
});

it('ends a body, a queued reading and one that is under way when their caller aborts', async () => {
  const workers = open({ count: 1 });
  const abort = new AbortController();
  const reason = new Error('fenced');
  const body = bodyOf(await workers.read(job('large-1'), abort.signal));
  const queued = workers.read(job('large-2'), abort.signal);
  await body.parts.next();
  abort.abort(reason);
  await expect(body.parts.next()).rejects.toBe(reason);
  await expect(body.done).rejects.toBe(reason);
  await expect(queued).rejects.toBe(reason);
  await expect(workers.read(job('small'), abort.signal)).rejects.toBe(reason);
  await readAll(bodyOf(await workers.read(job('large-3'))));
});

it('fails everything that is under way when it is closed, and accepts nothing more', async () => {
  const workers = open({ count: 1 });
  const body = bodyOf(await workers.read(job('large-1')));
  const queued = workers.read(job('small'));
  await Promise.all([
    expect(queued).rejects.toThrow('cannot read small: the workers are closed'),
    workers.close(),
  ]);
  await expect(readAll(body)).rejects.toThrow('the workers are closed');
  await expect(workers.read(job('small'))).rejects.toThrow('cannot read small: the workers are closed');
});

it('fails the reading whose thread dies, and continues with a new thread', async () => {
  const dies = dir.write('dies-once.mjs', diesOnce(path.join(dir.path, 'died'), entry));
  const workers = open({ count: 1, entry: dies });
  const first = workers.read(job('small'));
  const second = workers.read(job('small'));
  await expect(first).rejects.toThrow(
    'cannot read small: the thread that reads it died: it ended with status 7',
  );
  expect((await readAll(bodyOf(await second))).plain.toString()).toBe('content');
});

it('says why when the thread cannot even start', async () => {
  const workers = open({ entry: path.join(dir.path, 'missing.mjs') });
  await expect(workers.read(job('small'))).rejects.toThrow(/cannot read small: .* Cannot find module/);
});

function diesOnce(mark: string, realEntry: string): string {
  return `
    import fs from 'node:fs';
    import { parentPort } from 'node:worker_threads';
    if (fs.existsSync(${JSON.stringify(mark)})) await import(${JSON.stringify(realEntry)});
    else {
      fs.writeFileSync(${JSON.stringify(mark)}, '');
      parentPort.once('message', () => process.exit(7));
    }`;
}
