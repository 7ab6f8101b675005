import fs from 'node:fs';
import { expect, it } from 'vitest';
import type { FromWorker } from '../../src/read/reading.ts';
import { startThread } from '../../src/read/worker-thread.ts';
import { bundleEntry } from '../support/bundle-entry.ts';
import { testDir } from '../support/work-dir.ts';

it('a worker is warned of nothing when it closes a file: what nobody reads would be kept for ever', async () => {
  const dir = testDir();
  dir.write('file', 'x');
  const fd = fs.openSync(dir.path, 'r');
  const entry = await bundleEntry('test/read/fixtures/open-and-close.ts');
  const said = await new Promise<FromWorker>((message, death) => {
    startThread(entry, { root: { fd, path: dir.path }, spool: undefined }, { message, death });
  });
  expect(said).toEqual([]);
  fs.closeSync(fd);
  dir.remove();
});
