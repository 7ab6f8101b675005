// `capture array` from its command line to the store, with real tasks: failing ones, and deaths of the runner itself.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  array,
  attemptsIn,
  launcherOf,
  leftIn,
  mostAtOnce,
  noneRuns,
  processesOf,
  resultOf,
  scratchOf,
  startsIn,
  STEPS,
} from '../many/support.ts';
import { inNamespace } from '../support/namespace.ts';
import { BIN, openPlace, type Place, until } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const FORTY = Array.from({ length: 40 }, (_, index) => index);
const FILES = ['-r', 'result.dat', '-k', 'state.chk'];
const stored = (index: number): string => place.text(`result.dat.${index}.zst`);
const storedResults = (): readonly string[] => place.keys().filter((key) => key.startsWith('result.dat.'));

it.each([
  ['what it makes room of, is no failure of other tasks', 'fill', 1, '2 of 3 done, 1 failed'],
  ['else, ends the array with 69', '../../fill', 69, 'for index 1 to begin\n  try: make room there'],
])('a scratch file system filled by %s', async (_, file, status, said) => {
  const scratch = scratchOf(place);
  const options = ['array', '--to', place.store, `--scratch=${scratch}`, '--array', '0-2', '--jobs', '1'];
  const script = `[ $1 != 0 ] || { cat /dev/zero >${file}; exit 1; }; echo r >r.dat`;
  const command = [BIN, ...options, '-r', 'r.dat', '--', 'sh', '-c', script, 's', '{index}'];
  const run = place.exec(inNamespace({ tmpfs: { [scratch]: '32m' } }, command, place.work));
  expect(await run.status, run.stderr()).toBe(status);
  expect(run.stderr()).toContain(said);
  expect(run.stderr()).not.toContain('index 1 failed');
});

it('runs 40 tasks, tries failed ones again, and runs later only what is left', async () => {
  const joblog = path.join(place.dir, 'joblog');
  const modes = FORTY.map((index) => (index === 7 ? 'fail' : index % 10 === 3 ? 'fail-once' : 'ok'));
  const tasks = path.join(place.dir, 'tasks.tsv');
  fs.writeFileSync(tasks, ['mode', ...modes].join('\n'));
  const options = ['--tasks', tasks, ...FILES, '--retries', '1', '--joblog', joblog, '--jobs', '2'];
  const task = [STEPS, '{index}', '0', '{mode}'];

  const first = array(place, options, task);
  expect(await first.status, first.stderr()).toBe(1);
  expect(first.stderr()).toContain('39 of 40 done, 1 failed');
  expect(first.stderr()).toContain('index 7 fails on purpose');
  for (const index of FORTY.filter((one) => one !== 7))
    expect(stored(index), `index ${index}`).toBe(resultOf(index));
  const starts = startsIn(joblog);
  expect(starts.length).toBe(40 + 4 + 1);
  expect(mostAtOnce(starts)).toBe(2);
  expect(
    starts
      .filter(({ status }) => status === 9)
      .map(({ index }) => index)
      .toSorted((a, b) => a - b),
  ).toEqual([3, 7, 7, 13, 23, 33]);
  // Only of what failed something stays.
  expect(leftIn(place).toSorted()).toEqual(['7.failed', '7.failed.log']);

  fs.writeFileSync(tasks, ['mode', ...FORTY.map(() => 'ok')].join('\n'));
  const second = array(place, options, task);
  expect(await second.status, second.stderr()).toBe(0);
  expect(
    startsIn(joblog)
      .slice(starts.length)
      .map(({ index }) => index),
  ).toEqual([7]);
  expect(stored(7)).toBe(resultOf(7));
  expect(leftIn(place)).toEqual([]);
});

it('is killed half-way: its tasks checkpoint and end, and the next one does what is left', async () => {
  const options = ['--array', '0-39', ...FILES, '--jobs', '2'];
  const task = [STEPS, '{index}', '0.05'];
  const first = array(place, options, task);
  await until(() => storedResults().length >= 10, 'ten are done', 100_000);
  first.child.kill('SIGKILL');
  await noneRuns(place, FORTY);
  const done = storedResults().length;
  expect(done).toBeLessThan(40);
  const before = attemptsIn(place, 'steps.sh');

  const second = array(place, options, task);
  expect(await second.status, second.stderr()).toBe(0);
  for (const index of FORTY) expect(stored(index), `index ${index}`).toBe(resultOf(index));
  const after = attemptsIn(place, 'steps.sh');
  // Those that were at work have a second attempt, all others one.
  const twice = FORTY.filter((index) => after.get(index) !== 1);
  expect(twice.length).toBeLessThanOrEqual(2);
  for (const index of twice) expect(before.get(index)).toBe(1);
  // The directory of the first one is gone, too: nobody needs what was in it.
  expect(leftIn(place)).toEqual([]);
});

it('tells its tasks to end when it is killed: its death is a preemption of each', async () => {
  const first = array(place, ['--array', '0', ...FILES, '--no-logs'], [STEPS, '{index}', '60']);
  await until(() => processesOf(place, 0).length >= 3, 'launcher, task and its sleep are there');
  await until(() => leftIn(place).includes('0'), 'the task has its work directory');
  await first.says('capture: array of 1 task');
  first.child.kill('SIGKILL');
  await noneRuns(place, [0]);
  expect(place.records().map(({ record }) => record.kind)).toContain('preempted');
});

it('is told to stop: every task checkpoints, and goes on from there when it is run again', async () => {
  const options = ['--array', '0-3', ...FILES, '--jobs', '2', '--memory', '64MiB'];
  const task = [STEPS, '{index}', '0.3'];
  const first = array(place, options, task);
  await until(
    () => place.keys().filter((key) => key.startsWith('state.chk')).length >= 2,
    'two have a checkpoint',
  );
  first.child.kill('SIGTERM');
  expect(await first.status, first.stderr()).toBe(75);
  expect(storedResults()).toEqual([]);
  expect(leftIn(place)).toEqual([]);
  const second = array(place, [...options], task);
  expect(await second.status, second.stderr()).toBe(0);
  for (const index of [0, 1, 2, 3]) expect(stored(index)).toBe(resultOf(index));
  const log = place.capture(['logs', place.store, '0']);
  expect(await log.status).toBe(0);
  expect(log.stdout()).toMatch(/index 0 begins at step [1-5]/);
});

it('ends a task whose launcher is killed, before it tries it again', async () => {
  const pid = path.join(place.dir, 'pid');
  // The second attempt fails if the first one is still there.
  const script = `if [ "$CAPTURED_ATTEMPT" = 1 ]; then echo $$ >${pid}; while :; do sleep 0.1; done; fi
    kill -0 "$(cat ${pid})" 2>/dev/null && exit 3; echo alone >result.dat`;
  const first = array(place, ['--array', '0', ...FILES, '--retries', '1'], ['sh', '-c', script]);
  await until(() => fs.existsSync(pid), 'the task runs');
  process.kill(launcherOf(first), 'SIGKILL');
  expect(await first.status, first.stderr()).toBe(0);
  expect(first.stderr()).toContain('its launcher was killed by SIGKILL');
  expect(place.text('result.dat.0')).toBe('alone\n');
});

it('tells each of those that run at once its own number, for instance that of its GPU', async () => {
  // The first two wait for each other; who comes later has a number that is free again.
  const meet = `: >${place.dir}/at.{index}; until [ -e ${place.dir}/at.0 ] && [ -e ${place.dir}/at.1 ]; do sleep 0.02; done`;
  const options = ['--array', '0-5', '--jobs', '2', '--cpus', '0.5', '--memory', '64MiB', '-r', 'slot'];
  const run = array(place, options, ['sh', '-c', `${meet}; echo $CAPTURED_JOB_SLOT >slot`]);
  expect(await run.status, run.stderr()).toBe(0);
  const slots = [0, 1, 2, 3, 4, 5].map((index) => place.text(`slot.${index}`).trim());
  expect(new Set(slots.slice(0, 2))).toEqual(new Set(['0', '1']));
  expect(new Set(slots)).toEqual(new Set(['0', '1']));
});

it('counts no index as done whose result exists only as a death left it, and neither does any other command', async () => {
  const script = `if [ -e state.chk ]; then echo rest >rest.dat; exit 0; fi
    exec 3>result.dat; echo half >&3; echo 1 >state.chk; kill -KILL $$`;
  const options = ['--array', '1', ...FILES, '-r', 'rest.dat', '--retries', '1'];
  const run = array(place, options, ['sh', '-c', script]);
  expect(await run.status, run.stderr()).toBe(1);
  expect(run.stderr()).toContain('index 1 has not stored all (exit status 74)');
  expect(run.stderr()).toMatch(/ {2}1: .*NOT stored: result\.dat/);
  expect(run.stderr()).toContain('0 of 1 done, 1 failed');
  const ask = async (command: string, ...more: readonly string[]): Promise<string> => {
    const asked = place.capture([command, place.store, '--array', '1', ...more]);
    expect(await asked.status, asked.stderr()).toBe(1);
    return asked.stdout() + asked.stderr();
  };
  expect(await ask('status')).toContain('failed 74');
  expect(await ask('status', '--failed', '--format', 'lines')).toBe('1\n');
  expect(await ask('wait')).toContain('1 index: 1 failed');
  expect(await ask('verify')).toContain('index 1: result.dat is not stored: ');
  expect(await ask('gather', path.join(place.dir, 'g'), '--incomplete')).toContain(
    'result.dat is not stored',
  );
});

it.each([
  ['is in vain when the task does not write it anew', '', 2, 1],
  ['mends it when the task writes it anew', 'echo whole >result.dat', 2, 0],
  ['is one of all others when it fails itself', 'exit 3', 4, 1],
])(
  'a retry of an index with a result that a death left half-written %s',
  async (_, second, starts, status) => {
    const script = `if [ $CAPTURED_ATTEMPT = 1 ]; then sh -c 'exec >result.dat; echo half; kill -KILL $$'; exit 1; fi; ${second}`;
    const joblog = path.join(place.dir, 'jobs.log');
    const options = ['--array', '0', '-r', 'result.dat', '--retries', '3', '--joblog', joblog];
    const run = array(place, options, ['sh', '-c', script]);
    expect(await run.status, run.stderr()).toBe(status);
    expect(fs.readFileSync(joblog, 'utf8').trim().split('\n').slice(1)).toHaveLength(starts);
    const isSaid = run.stderr().includes('(exit status 74), and a retry would end the same way; kept: ');
    expect(isSaid).toBe(second === '');
  },
);
