// `capture array` on S3: what is done is known from one listing, checkpoints come from there, and what cannot be stored is
// not lost.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { leftIn, resultOf, scratchOf, STEPS } from '../many/support.ts';
import { openS3Place, type S3Place } from './s3-place.ts';
import { type Run, until } from './support.ts';

let s3: S3Place;
beforeEach(async () => {
  s3 = await openS3Place();
});
afterEach(() => s3.close());

const INDICES = [0, 1, 2, 3];
const stored = (index: number): string => s3.text(`result.dat.${index}.zst`);
const storedResults = (): readonly string[] => s3.keys().filter((key) => key.startsWith('result.dat.'));
const attempts = (index: number): number =>
  s3.server
    .keys()
    .filter((key) => key.includes(`/steps.sh/${index}/`) && key.endsWith('-000000.started.json')).length;

function array(stepS: number, ...options: readonly string[]): Run {
  const common = ['--scratch', scratchOf(s3.place), '-r', 'result.dat', '-k', 'state.chk', '--jobs', '2'];
  const task = [STEPS, '{index}', String(stepS)];
  return s3.place.capture(
    ['array', ...s3.at, '--array', '0-3', ...common, ...options, '--', ...task],
    s3.env,
  );
}

it('keeps what could not be stored, tries it again, and later finds that nothing is left to do', async () => {
  s3.server.fault = ({ key }) =>
    key.endsWith('result.dat.1.zst') && attempts(1) < 2
      ? { kind: 'answer', status: 503, code: 'SlowDown' }
      : undefined;
  const first = array(0, '--retries', '1', '--drain-timeout', '1s');
  expect(await first.status, first.stderr()).toBe(0);
  for (const index of INDICES) expect(stored(index), `index ${index}`).toBe(resultOf(index));
  expect(first.stderr()).toContain('index 1 has not stored all (exit status 74): try 1 of 2');
  expect(leftIn(s3.place).toSorted()).toEqual(['1.unsaved-1', '1.unsaved-1.log']);
  const [root = ''] = fs.readdirSync(scratchOf(s3.place));
  const aside = path.join(scratchOf(s3.place), root, '1.unsaved-1/result.dat');
  expect(fs.readFileSync(aside, 'utf8')).toBe(resultOf(1));

  const second = array(0);
  expect(await second.status, second.stderr()).toBe(0);
  expect(second.stderr()).toContain('4 are done: nothing is left to do');
  expect(INDICES.map(attempts)).toEqual([1, 2, 1, 1]);
});

it('is told to stop: every task checkpoints to S3, and goes on from there', async () => {
  const first = array(0.3, '--memory', '64MiB');
  await until(
    () => s3.keys().filter((key) => key.startsWith('state.chk')).length >= 2,
    'two checkpoints are stored',
  );
  first.child.kill('SIGTERM');
  expect(await first.status, first.stderr()).toBe(75);
  expect(storedResults()).toEqual([]);
  expect(leftIn(s3.place)).toEqual([]);

  const second = array(0);
  expect(await second.status, second.stderr()).toBe(0);
  for (const index of INDICES) expect(stored(index), `index ${index}`).toBe(resultOf(index));
  const log = s3.place.capture(['logs', `s3://${s3.server.bucket}/run`, '0', '--path-style'], s3.env);
  expect(await log.status, log.stderr()).toBe(0);
  expect(log.stdout()).toMatch(/index 0 begins at step [1-5]/);
});

it('keeps what a task that was told to stop could not store', async () => {
  const first = array(0.3, '--jobs', '1', '--grace', '4s');
  await until(() => s3.keys().some((key) => key.startsWith('state.chk')), 'a checkpoint is stored');
  s3.server.fault = ({ operation }) =>
    operation === 'PutObject' ? { kind: 'answer', status: 503, code: 'SlowDown' } : undefined;
  first.child.kill('SIGTERM');
  expect(await first.status, first.stderr()).toBe(75);
  expect(first.stderr()).toContain('what index 0 could not store stays in ');
  expect(leftIn(s3.place).toSorted()).toEqual(['0.unsaved-1', '0.unsaved-1.log']);
});
