// Calls that are never answered. open(2) of a FIFO that nobody writes to waits in their place (fifo(7)).
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { newDeferred } from '../../src/model/waiting.ts';
import { orGivenUp } from '../../src/native/given-up.ts';
import { bundle } from '../support/bundle.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
let fifo: string;
beforeEach(() => {
  dir = testDir();
  fifo = `${dir.path}/fifo`;
  execFileSync('mkfifo', [fifo]);
});
afterEach(() => dir.remove());

/** The FIFO has a writer from now on. */
const answer = (): number => fs.openSync(fifo, fs.constants.O_RDWR);

it('are given up with the reason of the signal, and a late answer is still taken', async () => {
  const limit = new AbortController();
  const reason = new Error('no time was left');
  const late = newDeferred<fs.promises.FileHandle>();
  const asked = orGivenUp(fs.promises.open(fifo), limit.signal, late.resolve);
  limit.abort(reason);
  await expect(asked).rejects.toBe(reason);
  const writer = answer();
  await (await late.promise).close();
  fs.closeSync(writer);
});

it('do not hold up the end of the process: its listeners are called, and its status is told', async () => {
  const program = await bundle('test/native/fixtures/never-answered.ts', dir.path);
  const { status, stdout } = spawnSync(process.execPath, [program, fifo], {
    encoding: 'utf8',
    timeout: 30_000,
    killSignal: 'SIGKILL',
  });
  expect({ status, stdout }).toEqual({ status: 7, stdout: 'Error: no time was left; left' });
});
