// What a task closed and nobody could store is nowhere but in its work directory: whoever dies, nothing removes that.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { array, leftIn, noneRuns, processesOf, scratchOf } from '../many/support.ts';
import { childrenOf, openPlace, type Place, type Run, sidecarOf, until } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

/** So slow that the second result cannot be stored before the drain is over. */
const SLOW = ['-r', 'r.*', '--bandwidth', '10kB/s', '--compression', 'none', '--drain-timeout', '1s'];
const fileOf = (name: string): string => path.join(place.dir, name);

/** The first attempt closes two results and then does `ending`; the second one makes none of them. */
function twoResults(ending: string): readonly string[] {
  const make = 'head -c 300000 /dev/urandom >';
  const first = `${make} r.a; ${make} r.b; md5sum r.a r.b > '${fileOf('closed')}'; ${ending}`;
  return ['sh', '-c', `if [ $CAPTURED_ATTEMPT = 1 ]; then ${first}; fi`];
}

const bothClosed = (): Promise<void> =>
  until(() => fs.existsSync(fileOf('closed')) && closedFiles().length === 2, 'both are closed');

function closedFiles(): readonly (readonly [md5: string, name: string])[] {
  const lines = fs.readFileSync(fileOf('closed'), 'utf8').trim().split('\n');
  return lines.map((line) => line.split('  ') as [string, string]);
}

/** By its bytes: in the store, or where the message says. */
function expectKept(): void {
  const roots = fs.readdirSync(scratchOf(place)).map((name) => path.join(scratchOf(place), name));
  const asides = roots.flatMap((root) => fs.readdirSync(root).map((name) => path.join(root, name)));
  const isFile = (file: string): boolean => fs.statSync(file).isFile();
  const dirs = asides.filter((one) => !isFile(one));
  const kept = dirs.flatMap((dir) => fs.readdirSync(dir).map((name) => path.join(dir, name)));
  const files = [...kept, ...place.keys().map((key) => path.join(place.store, key))];
  const sums = files
    .filter(isFile)
    .map((file) => createHash('md5').update(fs.readFileSync(file)).digest('hex'));
  for (const [md5, name] of closedFiles()) expect(sums, name).toContain(md5);
}

const kill = (pids: readonly (number | undefined)[]): void => {
  for (const pid of pids) if (pid !== undefined) process.kill(pid, 'SIGKILL');
};
const launchersOf = ({ pid }: Run): readonly number[] =>
  childrenOf(pid).filter((child) => child !== sidecarOf(pid));

it('a task that fails before all is stored leaves its files to nobody’s retry', async () => {
  const run = array(place, [...SLOW, '--array', '0', '--retries', '1'], twoResults('exit 3'));
  // What is stored of the first result may be half-written.
  expect(await run.status, run.stderr()).toBe(1);
  expect(leftIn(place).toSorted()).toEqual(['0.failed', '0.failed.log', '0.unsaved-1', '0.unsaved-1.log']);
  expect(run.stderr()).toMatch(
    /what index 0 could not store stays in .*\n {2}try: copy what you need out of it/,
  );
  expectKept();
});

it('a launcher and the sidecar that are killed together leave their files to nobody’s retry', async () => {
  const run = array(place, [...SLOW, '--array', '0', '--retries', '1'], twoResults('sleep 600'));
  await bothClosed();
  kill([...launchersOf(run), sidecarOf(run.pid)]);
  expect(await run.status, run.stderr()).toBe(0);
  expect(leftIn(place).toSorted()).toEqual(['0.unsaved-1', '0.unsaved-1.log']);
  expectKept();
});

it('a runner that is killed with all of its processes leaves their files to no later runner', async () => {
  const run = array(place, [...SLOW, '--array', '0'], twoResults('sleep 600'));
  await bothClosed();
  kill([run.pid, ...launchersOf(run), sidecarOf(run.pid)]);
  await run.status;
  for (const pid of processesOf(place, 0)) process.kill(pid, 'SIGKILL');
  await noneRuns(place, [0]);
  const next = array(place, [...SLOW, '--array', '0'], twoResults('exit 3'));
  expect(await next.status, next.stderr()).toBe(0);
  expect(leftIn(place).toSorted()).toEqual(['0.unsaved-1', '0.unsaved-1.log']);
  expect(next.stderr()).toMatch(
    /that was killed may not have stored stays in .*\n {2}try: copy what you need/,
  );
  expectKept();
});
