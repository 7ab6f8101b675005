// examples/spot/user-data.sh: its command line is a right one, and whatever fails, its log is stored and the machine is
// shut down at the end.
// What it calls is stood in for by programs that tell their words.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readLine } from '../../src/cli/read-line.ts';
import { ARRAY_SPEC } from '../../src/many/line.ts';
import { noFiles } from '../cli/given.ts';
import { openPlace, type Place } from '../e2e/support.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const read = (name: string): string => fs.readFileSync(path.join(ROOT, name), 'utf8');

let place: Place;
beforeEach(() => {
  place = openPlace();
  fs.mkdirSync(path.join(place.dir, 'bin'));
  fs.mkdirSync(path.join(place.dir, 'tmp'));
});
afterEach(() => place.close());

/** Runs it where the program of this name fails, and returns the calls, each with its words. */
async function calls(failing = ''): Promise<readonly (readonly string[])[]> {
  const told = path.join(place.dir, 'told');
  for (const name of ['aws', 'npm', 'chmod', 'capture', 'shutdown']) {
    const text = `#!/bin/sh\nprintf '%s\\t' ${name} "$@" >>${told}\necho >>${told}\nexit ${name === failing ? 1 : 0}\n`;
    fs.writeFileSync(path.join(place.dir, 'bin', name), text, { mode: 0o755 });
  }
  const run = place.exec(['sh', path.join(ROOT, 'examples/spot/user-data.sh')], {
    PATH: `${path.join(place.dir, 'bin')}:${process.env['PATH']}`,
    TMPDIR: path.join(place.dir, 'tmp'),
  });
  await run.status;
  const lines = fs.readFileSync(told, 'utf8').trimEnd().split('\n');
  return lines.map((line) => line.trimEnd().split('\t'));
}

it('installs, runs the array, and shuts down', async () => {
  const all = await calls();
  expect(all.map(([name]) => name)).toEqual(['aws', 'npm', 'aws', 'chmod', 'capture', 'aws', 'shutdown']);
  const [, array, ...words] = all.find(([name]) => name === 'capture') ?? [];
  expect(array).toBe('array');
  const outside = { ...noFiles, isFile: (file: string) => path.basename(file) === 'simulate' };
  expect(readLine(ARRAY_SPEC, words, { env: {}, cwd: '/w', outside })).toMatchObject({
    kind: 'go',
    warnings: [],
    request: { taskName: 'simulate', retries: 2, settings: { to: { url: 's3://my-bucket/sim/run1' } } },
  });
});

it.each(['aws', 'npm', 'capture'])('stores the log and shuts down if %s fails', async (name) => {
  const all = await calls(name);
  const log = `s3://my-bucket/sim/log/${os.hostname()}.log`;
  expect(all.at(-3)?.[0]).toBe(name);
  expect(all.at(-2)).toEqual(['aws', 's3', 'cp', '/var/log/cloud-init-output.log', log]);
  expect(all.at(-1)).toEqual(['shutdown', '-h', 'now']);
});

it('installs the package that npm pack makes', () => {
  const { name, version } = JSON.parse(read('package.json')) as { name: string; version: string };
  const named = [...read('examples/spot/user-data.sh').matchAll(/[\w-]+-[\d.]+\.tgz/g)].map(String);
  expect(new Set(named)).toEqual(new Set([`${name}-${version}.tgz`]));
});
