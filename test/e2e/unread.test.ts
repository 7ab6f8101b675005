// Nobody reads capture's stderr: a terminal stopped with Ctrl-S, a tee that stands still.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { BIN, killTree, openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('messages that nobody reads hold up neither the results nor the end', async () => {
  const fifo = path.join(place.dir, 'fifo');
  execFileSync('mkfifo', [fifo]);
  // This end is open and never read (fifo(7)), and the pipe is full before the first message.
  const reader = fs.openSync(fifo, fs.constants.O_RDWR | fs.constants.O_NONBLOCK);
  const stderr = fs.openSync(fifo, 'w');
  expect(() => {
    for (;;) fs.writeSync(reader, Buffer.alloc(4096));
  }).toThrow('EAGAIN');
  const options = ['--to', place.store, '--results', 'r*', '--log-level', 'debug', '--drain-timeout', '20s'];
  const child = spawn(BIN, [...options, '--', 'sh', '-c', 'echo good > r.dat; echo x > r; rm r'], {
    cwd: place.work,
    stdio: ['ignore', 'ignore', stderr],
  });
  fs.closeSync(stderr);
  onTestFinished(() => killTree(child.pid ?? 0));
  const [status] = (await once(child, 'exit')) as [number];
  fs.closeSync(reader);
  expect(status).toBe(0);
  expect(place.keys().filter((key) => key.startsWith('r.dat'))).toHaveLength(1);
}, 60_000);
