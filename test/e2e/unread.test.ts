// Nobody reads capture's stderr: a terminal stopped with Ctrl-S, a tee that stands still.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { BIN, killTree, openPlace, type Place } from './support.ts';

/** Each is a message of some 60 bytes: together far more than a pipe holds. */
const CHURN =
  'i=0; while [ $i -lt 1500 ]; do i=$((i+1)); echo $i > r$i; rm r$i; done; echo good > r.dat; sleep 1';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('messages that nobody reads hold up neither the results nor the end', async () => {
  const fifo = path.join(place.dir, 'fifo');
  execFileSync('mkfifo', [fifo]);
  // This end is open and never read (fifo(7)).
  const reader = fs.openSync(fifo, 'r+');
  const stderr = fs.openSync(fifo, 'w');
  const options = ['--to', place.store, '--results', 'r*', '--log-level', 'debug', '--drain-timeout', '20s'];
  const child = spawn(BIN, [...options, '--', 'sh', '-c', CHURN], {
    cwd: place.work,
    stdio: ['ignore', 'ignore', stderr],
  });
  fs.closeSync(stderr);
  onTestFinished(() => killTree(child.pid ?? 0));
  const [status] = (await once(child, 'exit')) as [number];
  const waiting = Buffer.alloc(64 * 1024);
  expect(fs.readSync(reader, waiting), 'the pipe is full').toBeGreaterThan(60_000);
  fs.closeSync(reader);
  expect(status).toBe(0);
  expect(place.keys().filter((key) => key.startsWith('r.dat'))).toHaveLength(1);
}, 60_000);
