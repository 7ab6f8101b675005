import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { md5Of } from '../../src/model/md5.ts';
import { md5OfFile } from '../../src/native/md5.ts';
import { testDir } from '../support/work-dir.ts';

test('a file longer than one read is hashed whole', async () => {
  const dir = testDir();
  const bytes = randomBytes(2 ** 20 + 17);
  const fd = fs.openSync(dir.write('big', bytes), 'r');
  expect(await md5OfFile(fd)).toBe(md5Of(bytes));
  fs.closeSync(fd);
  dir.remove();
});
