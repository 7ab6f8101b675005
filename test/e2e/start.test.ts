// What a start opens in the install tree: thousands of tasks start at once on one shared file system.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { startS3Server } from '../s3-server/server.ts';
import { countOpens } from '../support/opens.ts';
import { openPlace, until, type Place } from './support.ts';

const MOST_OPENS = 10;
/** What a run can need of them. */
const PACKAGES = [
  'koffi',
  '@koromix',
  'zstd-napi/build/Release',
  'zstd-napi/package.json',
  'zstd-napi/binding.js',
];

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

/** An installation that no other test uses. */
function install(dir: string): string {
  for (const name of ['bin', 'dist', 'package.json', ...PACKAGES.map((one) => `node_modules/${one}`)])
    if (fs.existsSync(name)) fs.cpSync(name, path.join(dir, name), { recursive: true });
  return path.join(dir, 'bin/capture');
}

async function opensOfStart(options: readonly string[], env: NodeJS.ProcessEnv): Promise<readonly string[]> {
  const dir = path.join(place.dir, 'installed');
  const capture = install(dir);
  // The task opens it first: what is opened after it is not of the start.
  const mark = path.join(dir, 'the-task-runs');
  fs.writeFileSync(mark, '');
  const opens = countOpens(dir);
  const task = ['sh', '-c', `: <${mark}; touch started; while ! [ -e go ]; do sleep 0.05; done`];
  const run = place.exec([capture, ...options, '--results', 'r.dat', '--', ...task], env);
  await until(() => fs.existsSync(place.at('started')), 'the task runs');
  const opened = opens();
  fs.writeFileSync(place.at('go'), '');
  expect(await run.status).toBe(0);
  expect(opened).toContain(mark);
  // The worker warms up once the task is started, and on a busy node it can be quicker than the task.
  return opened.slice(0, opened.indexOf(mark)).filter((file) => !file.includes('zstd-napi'));
}

it('a run with a directory opens at most ten files of the installation before its task runs', async () => {
  const opened = await opensOfStart(['--to', place.store], {});
  expect(opened.length, opened.join('\n')).toBeLessThanOrEqual(MOST_OPENS);
  const names = opened.map((file) => path.basename(file));
  expect(names).toContain('sidecar-program.v8');
  // The drivers of other stores, and what they need.
  expect(names.filter((name) => /^(s3|gcs|sdk|credentials|azure|identity)\./.test(name))).toEqual([]);
}, 30_000);

it('a run with S3 opens at most ten files of dist before its task runs', async () => {
  const server = await startS3Server();
  onTestFinished(() => server.stop());
  const all = await opensOfStart(['--to', `s3://${server.bucket}/run`, '--path-style'], server.env);
  const opened = all.filter((file) => path.basename(path.dirname(file)) === 'dist');
  expect(opened.length, opened.join('\n')).toBeLessThanOrEqual(MOST_OPENS);
  expect(opened.map((file) => path.basename(file))).toContain('s3.v8');
  expect(opened.filter((file) => /\/gcs\./.test(file))).toEqual([]);
}, 30_000);
