// Notices of tasks that share a process: asked for once, heard by each.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Log } from '../../src/log/log.ts';
import type { Notices } from '../../src/notices/notices.ts';
import { SharedNotices } from '../../src/sidecar/shared-notices.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
const open: Notices[] = [];
beforeEach(() => {
  dir = testDir();
});
afterEach(() => {
  for (const one of open.splice(0)) one.close();
  dir.remove();
});

const ignore = (): undefined => undefined;
const log: Log = {
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
  ofAttempt: ignore,
  draw: undefined,
  close: async () => undefined,
};

interface Heard {
  readonly notices: Notices;
  readonly told: string[];
}

function listen(shared: SharedNotices): Heard {
  const told: string[] = [];
  const notices = shared.listen([{ kind: 'file', path: `${dir.path}/stop` }], {
    log,
    onNotice: ({ source }) => told.push(source),
    onWithdrawn: ({ source }) => told.push(`no ${source}`),
  });
  open.push(notices);
  return { notices, told };
}

it('each hears of new notices, and one that begins later hears of those in force', async () => {
  const shared = new SharedNotices({});
  const [a, b] = [listen(shared), listen(shared)];
  dir.write('stop', '');
  await expect.poll(() => [a.told, b.told]).toEqual([['file'], ['file']]);
  const late = listen(shared);
  expect(late.told).toEqual(['file']);
  fs.rmSync(`${dir.path}/stop`);
  await expect.poll(() => late.told).toEqual(['file', 'no file']);
  expect(a.told).toEqual(['file', 'no file']);
});

it('one that has ended hears nothing more, but the others do', async () => {
  const shared = new SharedNotices({});
  const [a, b] = [listen(shared), listen(shared)];
  a.notices.close();
  dir.write('stop', '');
  await expect.poll(() => b.told).toEqual(['file']);
  expect(a.told).toEqual([]);
});
