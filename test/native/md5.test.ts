import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { createMd5, md5OfFile } from '../../src/native/md5.ts';
import { testDir } from '../support/work-dir.ts';

test('hash-wasm gives the same sum where the build refuses md5', async () => {
  const refuses = (): never => {
    throw new Error('error:0308010C:digital envelope routines::unsupported');
  };
  const bytes = randomBytes(100_000);
  const [usual, fallback] = [await createMd5(), await createMd5(refuses)];
  for (const md5 of [usual, fallback]) {
    md5.update(bytes.subarray(0, 1234));
    md5.update(bytes.subarray(1234));
  }
  expect(fallback.digest('hex')).toBe(usual.digest('hex'));
});

test('a file longer than one read is hashed whole', async () => {
  const dir = testDir();
  const bytes = randomBytes(2 ** 20 + 17);
  const fd = fs.openSync(dir.write('big', bytes), 'r');
  const md5 = await createMd5();
  md5.update(bytes);
  expect(await md5OfFile(fd)).toBe(md5.digest('hex'));
  fs.closeSync(fd);
  dir.remove();
});
