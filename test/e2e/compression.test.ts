// --compression zstd:auto, through the whole program.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { compress } from 'zstd-napi';
import { md5Of, MiB, numbers } from '../read/read-all.ts';
import { openPlace, type Place } from './support.ts';

/** No core is so slow that it would be the bottleneck. */
const SLOW = ['--compression', 'zstd:auto', '--bandwidth', '1MB/s'];
const FILES = ['-r', 'r.dat', '--index', '3'];

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('stores less of a large file over a slow link, and stores the same content no second time', async () => {
  const content = numbers(10 * MiB);
  const source = `${place.dir}/numbers`;
  fs.writeFileSync(source, content);
  const task = ['cp', source, 'r.dat'];

  const first = place.run([...FILES, ...SLOW], task);
  expect(await first.status, first.stderr()).toBe(0);
  const stored = fs.statSync(`${place.store}/r.dat.3.zst`);
  expect(stored.size * 1.2).toBeLessThan(compress(content, { compressionLevel: 1 }).length);
  expect(place.stored('r.dat.3.zst').equals(content)).toBe(true);
  expect(JSON.stringify(place.records().at(-1)?.record)).toContain(md5Of(content));

  place.freshWork();
  const second = place.run([...FILES, '--compression', 'zstd:1'], task);
  expect(await second.status, second.stderr()).toBe(0);
  expect(fs.statSync(`${place.store}/r.dat.3.zst`).ino).toBe(stored.ino);
});
