// Whole runs on Azure Blob Storage, and processes that claim the same keys.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { decompress } from 'zstd-napi';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { startAzureServer, type AzureServer } from '../../azure/server.ts';
import { killTree, openPlace, until } from '../../e2e/support.ts';
import { resultOf, STEPS } from '../../many/support.ts';
import { bundle } from '../../support/bundle.ts';

let server: AzureServer;
beforeAll(async () => {
  server = await startAzureServer();
});
afterAll(() => server.stop());

it('a run that is killed resumes on another machine; status and gather find what it stored', async () => {
  const place = openPlace();
  onTestFinished(() => place.close());
  const url = `${server.url}/melt`;
  const options = ['--to', url, '--index', '0', '-r', 'result.dat', '-k', 'state.chk'];
  const run = (stepS: number) => place.capture([...options, '--', STEPS, '0', String(stepS)], server.env);
  const first = run(0.3);
  await until(
    () =>
      server
        .keys()
        .some((key) => /^melt\/\.capture\/.*\/0001-.*\.json$/.test(key) && !key.includes('started')),
    'a checkpoint is committed',
  );
  killTree(first.pid);
  await first.status;
  place.freshWork();
  const second = run(0);
  expect(await second.status, second.stderr()).toBe(0);
  expect(second.stderr()).toMatch(/restored|resume/);
  const stored = Buffer.from(server.versions('melt/result.dat.0.zst').at(-1) ?? []);
  expect(String(decompress(stored))).toBe(resultOf(0));

  const status = place.capture(['status', url, '--array', '0'], server.env);
  expect(await status.status, status.stderr()).toBe(0);
  expect(status.stdout()).toContain('done');
  const gather = place.capture(['gather', url, place.at('out'), '--array', '0'], server.env);
  expect(await gather.status, gather.stderr()).toBe(0);
  const gathered = fs.readdirSync(place.at('out'), { recursive: true, encoding: 'utf8' });
  const file = gathered.find((name) => /result\.dat(\.0)?$/.test(name)) ?? '';
  expect(fs.readFileSync(path.join(place.at('out'), file), 'utf8')).toBe(resultOf(0));
});

it('doctor finds all in order, and leaves nothing', async () => {
  const place = openPlace();
  onTestFinished(() => place.close());
  const doctor = place.capture(['doctor', `${server.url}/doctor`, '--json'], server.env);
  await doctor.status;
  expect(doctor.stdout()).toContain('create-only put');
  expect(doctor.stdout()).not.toMatch(/"level": ?"fail"/);
  expect(server.keys().filter((key) => key.startsWith('doctor/'))).toEqual([]);
});

it('two processes that create the same keys: each key has one winner', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-claim-'));
  onTestFinished(() => fs.rmSync(dir, { recursive: true }));
  const program = await bundle('test/store/azure/fixtures/claim.ts', dir);
  const keys = 40;
  const won = await Promise.all(
    [1, 2].map(async () => {
      const args = [program, `${server.url}/claims`, String(keys)];
      const { stdout } = await promisify(execFile)(process.execPath, args, {
        env: { ...process.env, ...server.env },
      });
      return stdout.split('\n').filter(Boolean).map(Number);
    }),
  );
  expect(won.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: keys }, (_, n) => n));
});
