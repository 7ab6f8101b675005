// --metrics of a real run: the numbers are there while the task runs, and nobody listens otherwise.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { once } from 'node:events';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { until } from '../launch/harness.ts';
import { openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const TASK = ['sh', '-c', 'echo 1 > r.dat; until [ -e go ]; do sleep 0.05; done'];

async function freePort(): Promise<{ readonly port: number; readonly server: net.Server }> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: (server.address() as net.AddressInfo).port, server };
}

it('a port shows what is stored while the task runs', async () => {
  const { port, server } = await freePort();
  server.close();
  const run = place.run(['--index', '3', '-r', 'r.dat', '--metrics', String(port)], TASK);
  const scraped = async (): Promise<string> => {
    try {
      return await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    } catch {
      return '';
    }
  };
  let text = '';
  while (!/capture_stored_files_total\{role="result",task="sh",index="3",attempt="1"\} 1\n/.test(text)) {
    text = await scraped();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  fs.writeFileSync(place.at('go'), '');
  expect(await run.status, run.stderr()).toBe(0);
  expect(await scraped()).toBe('');
});

it('a port that is in use is a warning, and the task runs', async () => {
  const { port, server } = await freePort();
  fs.writeFileSync(place.at('go'), '');
  const run = place.run(['--index', '3', '-r', 'r.dat', '--metrics', String(port)], TASK);
  expect(await run.status, run.stderr()).toBe(0);
  server.close();
  expect(run.stderr()).toMatch(
    /warning: no metrics: .*EADDRINUSE.*\n {2}try: give each task of a machine a port/,
  );
  expect(place.keys()).toEqual(['r.dat.3']);
});

it('a file is there while the task runs, and gone afterwards', async () => {
  const file = path.join(place.dir, 'capture.prom');
  const run = place.run(['--index', '3', '-r', 'r.dat', '--metrics', file], TASK);
  await until('the file is there', () => fs.existsSync(file));
  expect(fs.readFileSync(file, 'utf8')).toContain('capture_lag_seconds{task="sh",index="3",attempt="1"}');
  fs.writeFileSync(place.at('go'), '');
  expect(await run.status, run.stderr()).toBe(0);
  expect(fs.readdirSync(place.dir).toSorted()).toEqual(['store', 'work-1']);
});
