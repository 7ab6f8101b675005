// Ways in which a promise was once broken, each as it was found.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { isAlive, openPlace, sidecarOf, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const sh = (script: string): string[] => ['sh', '-c', script];
const last = (): ReturnType<Place['records']>[number]['record'] | undefined => place.records().at(-1)?.record;

it('a window with an idle link is used, although only tiny files have been measured', async () => {
  const script = `trap "head -c 5000000 /dev/urandom > n; mv n final; exit 0" TERM
    for i in 1 2 3 4 5 6 7 8 9; do echo $i > r$i; done; echo ready; while :; do sleep 0.1; done`;
  const run = place.run(['-r', 'final', '-r', 'r*', '--log-level', 'debug'], sh(script));
  await run.says(/(stored r[^]*){9}/);
  run.child.kill('SIGTERM');
  expect(await run.status, run.stderr()).toBe(0);
  expect(place.stored('final.0')).toHaveLength(5_000_000);
});

it('two tasks whose names and paths make one key keep their checkpoints apart', async () => {
  const one = async (name: string, path: string, script: string): Promise<number> => {
    place.freshWork();
    return place.run(['--task-name', name, '-k', path], sh(script)).status;
  };
  expect(await one('sim', 'state.run', 'echo A > state.run; exit 75')).toBe(75);
  expect(await one('run.sim', 'state', 'echo B > state; exit 75')).toBe(75);
  // This one is done, and clears away what its killed attempts have left: nothing of the other's.
  expect(await one('run.sim', 'state', 'grep B state && echo C > state')).toBe(0);
  expect(await one('sim', 'state.run', 'grep A state.run')).toBe(0);
});

it('what deaths left of one result in two tasks is kept of both', async () => {
  for (const name of ['a', 'b']) {
    // Nobody but the kernel closes it.
    const task = `exec 3> big; echo ${name} >&3; kill -9 $$`;
    const run = place.run(['--task-name', name, '-r', 'big'], sh(task));
    expect(await run.status).toBe(137);
    place.freshWork();
  }
  const partials = place.keys().filter((key) => key.includes('partial'));
  expect(partials.map((key) => place.text(key)).toSorted()).toEqual(['a\n', 'b\n']);
});

it('a watch after one that is done takes up the next task, when no exit file says that it has ended', async () => {
  const status = `${place.dir}/status`;
  const options = ['watch', '--to', place.store, '--task-name', 't', '-r', 'r*', '--exit-file', status];
  for (const n of ['1', '2']) {
    const watch = place.capture(options);
    await watch.says(/attempt \d/);
    fs.writeFileSync(place.at(`r${n}`), n);
    fs.writeFileSync(status, '0\n');
    expect(await watch.status, watch.stderr()).toBe(0);
    expect(place.text(`r${n}.0`)).toBe(n);
    fs.rmSync(status);
  }
  expect(last()).toMatchObject({ kind: 'done', attempt: 2 });
});

it.each([
  ['SIGTERM', []],
  ['signal', ['--notice-on', 'USR1']],
  ['source', ['--notice', 'file:../stop']],
])('a notice by %s while the restore still runs ends the run before the task', async (by, options) => {
  const first = place.run(['-k', 'k'], sh('echo 1 > k'));
  expect(await first.status).toBe(0);
  place.freshWork();
  const check = `echo > ${place.dir}/checking; until [ -e ${place.dir}/go ]; do sleep 0.05; done`;
  const run = place.run(['-k', 'k', '--verify-checkpoint', check, ...options], sh('echo started'));
  await until(() => fs.existsSync(`${place.dir}/checking`), 'the check');
  if (by === 'SIGTERM') run.child.kill('SIGTERM');
  else if (by === 'signal') run.child.kill('SIGUSR1');
  else fs.writeFileSync(`${place.dir}/stop`, '');
  await run.says('nothing was started');
  fs.writeFileSync(`${place.dir}/go`, '');
  expect(await run.status, run.stderr()).toBe(75);
  expect(run.stdout()).toBe('');
  expect(last()?.kind).toBe('preempted');
});

it('a store in the work directory goes with it: that is said, and nothing is reclaimed', async () => {
  const run = place.capture(['--to', 'store', '-r', 'r.dat', '--', 'sh', '-c', 'echo 1 > r.dat']);
  expect(await run.status).toBe(0);
  expect(run.stderr()).toContain('is in the work directory, and is lost with it: nothing is reclaimed');
  expect(fs.existsSync(place.at('r.dat'))).toBe(true);
});

it('a store where nothing can be made says why', async () => {
  const run = place.capture(['--to', '/proc/no-store', '-r', 'r.dat', '--', 'true']);
  await run.says(/does not exist|ENOENT|no such file/i);
  run.child.kill('SIGTERM');
  expect(await run.status).not.toBe(0);
});

it('an attempt file that is a FIFO is none', async () => {
  const { execFileSync } = await import('node:child_process');
  fs.mkdirSync(place.at('.capture'), { mode: 0o700 });
  execFileSync('mkfifo', [place.at('.capture/attempt.json')]);
  expect(await place.run(['-r', 'r.dat'], sh('echo 1 > r.dat')).status).toBe(0);
});

it('a store in the work directory is found by any name of it', async () => {
  fs.symlinkSync(place.work, `${place.dir}/link`);
  const options = ['--to', `${place.dir}/link/store`, '-r', '*', '-r', '*/*'];
  const run = place.capture([...options, '--', 'sh', '-c', 'echo 1 > r.dat']);
  expect(await run.status, run.stderr()).toBe(0);
  expect(run.stderr()).toContain('is in the work directory, and is lost with it');
  const keys = fs.readdirSync(place.at('store')).filter((name) => !name.startsWith('.'));
  expect(keys).toEqual(['r.dat.0']);
});

it.each([
  ['results', 'out/r.dat', 'inside'],
  ['results', 'out/*.dat', 'outside'],
  ['checkpoints', 'out/r.dat', 'outside'],
])('%s %s behind a link to a directory %s are left, and not forgotten', async (list, pattern, where) => {
  const elsewhere = where === 'inside' ? place.at('run7') : `${place.dir}/elsewhere`;
  fs.mkdirSync(elsewhere);
  fs.symlinkSync(elsewhere, place.at('out'));
  const run = place.run([`--${list}`, pattern], sh('echo 1 > out/r.dat'));
  expect(await run.status, run.stderr()).toBe(74);
  expect(run.stderr()).toContain('NOT stored: out/r.dat (out is a symbolic link to a directory)');
});

it('a task whose capture was killed is ended before its directory gets the next one', async () => {
  const script = 'echo 1 > r.dat; echo began $$; exec sleep 300';
  const first = place.run(['-r', 'r.dat'], sh(script));
  await first.says(/began \d+/);
  const task = Number(/began (\d+)/.exec(first.stdout())?.[1]);
  const sidecar = sidecarOf(first.pid);
  for (const pid of [first.pid, sidecar ?? 0]) process.kill(pid, 'SIGKILL');
  await until(() => sidecar !== undefined && !isAlive(sidecar), 'the sidecar is gone');
  expect(isAlive(task)).toBe(true);
  // The one who starts it carries the first one's variables, as a script of it would.
  const token = /CAPTURED_RUN=([^\0]+)/.exec(fs.readFileSync(`/proc/${task}/environ`, 'utf8'))?.[1];
  const second = place.run(['-r', 'r.dat'], sh(`! kill -0 ${task} 2>&-; echo 2 > r.dat`), {
    CAPTURED_RUN: token,
  });
  expect(await second.status, second.stderr()).toBe(0);
  expect(isAlive(task)).toBe(false);
  expect(second.stderr()).toContain('the task of attempt 1 is still at work here, and nobody watches it');
});

it.each([
  ['failed', 'echo 1 > r.dat; exit 1', 1],
  ['left something', 'ln -s / r.dat', 74],
])(
  'a job that an attempt has submitted before it %s lives on beside the next one',
  async (_how, task, status) => {
    const first = place.run(['-r', 'r.dat'], sh(`echo run $CAPTURED_RUN; ${task}`));
    expect(await first.status, first.stderr()).toBe(status);
    const token = /run (\S+)/.exec(first.stdout())?.[1];
    const job = spawn('sleep', ['300'], { env: { ...process.env, CAPTURED_RUN: token } });
    try {
      const second = place.run(['-r', 'r.dat'], sh('rm r.dat; echo 2 > r.dat'));
      expect(await second.status, second.stderr()).toBe(0);
      expect(second.stderr()).not.toContain('still at work');
      expect(isAlive(job.pid ?? 0)).toBe(true);
    } finally {
      job.kill('SIGKILL');
    }
  },
);

it('a result under whose key others stand is left at once', async () => {
  const run = place.run(['-r', 'run', '-r', 'run.0'], sh('mkdir run.0; echo 1 > run.0/x; echo 2 > run'));
  expect(await run.status, run.stderr()).toBe(74);
  expect(run.stderr()).toContain('one key is both an object and the folder of another');
});
