// Messages into a file on a file server that does not answer. A full FIFO waits in its place, as write(2) on both does.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Outlet } from '../../src/log/outlet.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

vi.mock('../../src/native/mounts.ts', () => ({ typeOfOpen: () => 'nfs4' }));

const LINE = 'x'.repeat(1023);
/** More than the FIFO holds, and less than the queue takes. */
const FITTING = 128;

let dir: TestDir;
let fd: number;
let outlet: Outlet;
beforeEach(() => {
  dir = testDir();
  const fifo = path.join(dir.path, 'fifo');
  execFileSync('mkfifo', [fifo]);
  // O_RDWR waits for nobody (fifo(7)).
  fd = fs.openSync(fifo, 'r+');
  outlet = new Outlet(fd, (count) => `${count} dropped\n`);
});
afterEach(() => {
  outlet.close();
  fs.closeSync(fd);
  dir.remove();
});

/** The server answers again: reads until it is told that all has arrived. */
async function answer(): Promise<readonly string[]> {
  const reader = fs.createReadStream('', { fd: fs.openSync(path.join(dir.path, 'fifo'), 'r') });
  let text = '';
  for await (const chunk of reader) {
    text += String(chunk);
    if (text.endsWith('end\n')) break;
  }
  return text.split('\n').filter((line) => line !== '');
}

const say = (count: number): void => {
  for (let n = 0; n < count; n += 1) outlet.write(`${n} ${LINE}\n`);
};

it('hold up nothing, and come in their order when it answers', async () => {
  say(FITTING);
  await outlet.drain();
  expect(outlet.isWaiting).toBe(true);
  outlet.write('end\n');
  const lines = await answer();
  expect(lines.slice(0, -1)).toEqual(Array.from({ length: FITTING }, (_, n) => `${n} ${LINE}`));
  await outlet.drain();
  expect(outlet.isWaiting).toBe(false);
});

it('are counted where they are more than can wait', async () => {
  say(1000);
  outlet.write('end\n');
  const lines = await answer();
  const dropped = lines.filter((line) => line.endsWith(' dropped')).map((line) => Number.parseInt(line, 10));
  expect(dropped).toHaveLength(1);
  expect(lines.length - 2 + (dropped[0] ?? 0)).toBe(1000);
});
