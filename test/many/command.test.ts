// What `capture array` promises beside the results: what it prints, passes on, tells, and how it ends.
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { verdictOf } from '../../src/many/command.ts';
import { readStat } from '../../src/native/processes.ts';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPlace, type Place, until } from '../e2e/support.ts';
import { array, leftIn, processesOf, scratchOf, startsIn } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const script = (text: string): readonly string[] => ['sh', '-c', text];
const running = (...indices: readonly number[]): Promise<void> =>
  until(
    () => indices.every((index) => fs.existsSync(path.join(place.dir, `runs-${index}`))),
    'the tasks run',
  );
/** Says that it runs, and does `text`. */
const task = (text: string): readonly string[] => script(`: >${place.dir}/runs-$CAPTURED_INDEX; ${text}`);

describe('capture array', () => {
  it('with --dry-run prints each command, and starts and stores nothing', async () => {
    const run = array(
      place,
      ['--array', '0-2', '-r', 'r', '--on-end', 'poweroff', '--dry-run'],
      ['echo', 'a b', '{index}'],
    );
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toMatch(/^array of 3 tasks echo -> .*; at most \d+ at once /);
    expect(run.stdout()).toContain(
      "\n0: echo 'a b' 0\n1: echo 'a b' 1\n2: echo 'a b' 2\nat the end: poweroff\n",
    );
    expect(fs.existsSync(place.store)).toBe(false);
    expect(leftIn(place)).toEqual([]);
  });

  it('with --dry-run refuses what could not run either', async () => {
    const run = array(place, ['--array', '0-2', '-r', 'r', '--cpus', '10000', '--dry-run'], ['echo', '1']);
    expect(await run.status).toBe(64);
    expect(run.stderr()).toMatch(/no task can run here: it needs 10000 cores.*\n *try: /);
    expect(run.stdout()).toBe('');
  });

  it('says at the start, once, why fewer tasks run at once than --jobs asks for, and what changes it', async () => {
    const run = array(
      place,
      ['--array', '0-999', '-r', 'r', '--jobs', '999', '--cpus', '0.9'],
      task('sleep 60'),
    );
    await running(0);
    run.child.kill('SIGINT');
    await run.status;
    const [start, ...others] = run.stderr().split('\n');
    expect(start).toContain('array of 1000 tasks sh ');
    expect(others.slice(0, 2)).toEqual([
      expect.stringMatching(
        /capture: warning: \d+ tasks? at once and not 999 \(--jobs\): each takes 0\.9 cores, and this machine has [\d.]+$/,
      ),
      expect.stringMatching(/^ *try: if a task uses less than that: --cpus 0\.\d+$/),
    ]);
    expect(others.join('\n').split('(--jobs)')).toHaveLength(2);
  });

  it('gives each task its columns, an empty directory of its own, the way back, and its priority', async () => {
    const tasks = path.join(place.dir, 't.csv');
    fs.writeFileSync(tasks, 'colour,size\n"deep red",7\nblue,8\n');
    const text =
      'ls -A | grep -v "^.capture$"; echo "{size} $colour $CAPTURED_INDEX $(nice) $CAPTURED_SUBMIT_DIR" > r';
    const run = array(place, ['--tasks', tasks, '-r', 'r', '--nice', '3'], script(text));
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.text('r.0')).toBe(`7 deep red 0 3 ${place.work}\n`);
    expect(place.text('r.1')).toBe(`8 blue 1 3 ${place.work}\n`);
  });

  it('fails each task that cannot start, as the directory where all start is gone', async () => {
    const text = 'rm -r "$CAPTURED_SUBMIT_DIR"; echo x >r';
    const run = array(place, ['--array', '0-2', '-r', 'r', '--jobs', '1'], script(text));
    expect(await run.status, run.stderr()).toBe(1);
    expect(run.stderr()).toMatch(/index 1 failed: .*ENOENT/);
    expect(run.stderr()).toMatch(/1 of 3 done, 2 failed/);
  });

  it('keeps what all tries of a failed index wrote, in one file, and says the last lines of each', async () => {
    const text =
      'read try <{dir}/try 2>/dev/null || try=1; echo $((try + 1)) >{dir}/try; echo "try $try"; exit 3';
    const run = array(
      place,
      ['--array', '0', '-r', 'r', '--retries', '2'],
      script(text.replaceAll('{dir}', place.dir)),
    );
    expect(await run.status, run.stderr()).toBe(1);
    expect(leftIn(place).toSorted()).toEqual(['0.failed', '0.failed.log']);
    const [root = ''] = fs.readdirSync(scratchOf(place));
    const kept = path.join(scratchOf(place), root, '0.failed');
    expect(fs.readFileSync(`${kept}.log`, 'utf8').match(/^try .*$/gm)).toEqual(['try 1', 'try 2', 'try 3']);
    expect(run.stderr().match(/^.*0: try .*$/gm)).toHaveLength(3);
    expect(run.stderr()).toContain(`index 0 failed with exit status 3; kept: ${kept} and ${kept}.log\n`);
  });

  it('runs nothing that is done already', async () => {
    const options = ['--array', '0-1', '-r', 'r', '--joblog', path.join(place.dir, 'log')];
    expect(await array(place, options, script('echo {index} >r')).status).toBe(0);
    const again = array(place, options, script('echo other >r'));
    expect(await again.status).toBe(0);
    expect(again.stderr()).toContain('array of 2 tasks sh -> ');
    expect(again.stderr()).toContain('2 are done: nothing is left to do\n  try: to run them again');
    expect(startsIn(path.join(place.dir, 'log')).length).toBe(2);
    expect(place.text('r.1')).toBe('1\n');
  });

  it('stores what the tasks write, unless --no-logs says otherwise', async () => {
    const output = path.join(place.store, '.capture/~output');
    expect(
      await array(place, ['--array', '0', '-r', 'r', '--no-logs'], script('echo said; echo 1 >r')).status,
    ).toBe(0);
    expect(fs.existsSync(output)).toBe(false);
    expect(await array(place, ['--array', '1', '-r', 'r'], script('echo said; echo 1 >r')).status).toBe(0);
    const logs = place.capture(['logs', place.store, '1']);
    await logs.status;
    expect(logs.stdout()).toContain('said\n');
  });

  it('halts as --halt says: it starts none more', async () => {
    const options = [
      '--array',
      '0-9',
      '-r',
      'r',
      '--jobs',
      '1',
      '--halt',
      'soon,fail=1',
      '--joblog',
      path.join(place.dir, 'log'),
    ];
    const run = array(place, options, script('exit 4'));
    expect(await run.status, run.stderr()).toBe(1);
    expect(startsIn(path.join(place.dir, 'log')).map(({ status }) => status)).toEqual([4]);
    expect(run.stderr()).toContain(
      '1 task failed: --halt says that no more are started; those that run go on',
    );
    expect(run.stderr()).toContain('0 of 10 done, 9 waiting, 1 failed');
  });

  it('halts as --halt says: it ends those that run', async () => {
    const options = ['--array', '0-3', '-r', 'r', '--memory', '64MiB', '--jobs', '2', '--halt', 'now,fail=1'];
    const text = `if [ {index} = 1 ]; then until [ -e ${place.dir}/runs-0 ]; do sleep 0.1; done; exit 4; fi`;
    const run = array(place, options, task(`${text}; trap "exit 0" TERM; while :; do sleep 0.1; done`));
    expect(await run.status, run.stderr()).toBe(1);
    expect(run.stderr()).toContain('no more are started, and those that run are told to end');
    expect(run.stderr()).toContain('0 of 4 done, 3 waiting, 1 failed');
    expect(fs.existsSync(path.join(place.dir, 'runs-2'))).toBe(false);
  });

  it('removes what a task that is done has left, while others run', async () => {
    const run = array(
      place,
      ['--array', '0-1', '-r', 'r', '--memory', '64MiB', '--jobs', '2'],
      task('echo 1 >r; [ {index} = 0 ] || while [ ! -e go ]; do sleep 0.1; done'),
    );
    await running(0, 1);
    await until(() => leftIn(place).every((name) => !name.startsWith('0')), 'nothing is left of index 0');
    expect(leftIn(place)).toContain('1');
    const [root = ''] = fs.readdirSync(scratchOf(place));
    fs.writeFileSync(path.join(scratchOf(place), root, '1/go'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(leftIn(place)).toEqual([]);
  });

  it('acts as --on-end says after all else, and tells --notify how it ended', async () => {
    const told = path.join(place.dir, 'told');
    const options = ['--array', '0-1', '-r', 'r', '--on-end', `echo "end $CAPTURED_STATUS" >>${told}`];
    const run = array(place, [...options, '--notify', `cat >>${told}`], script('echo 1 >r; exit {index}'));
    expect(await run.status, run.stderr()).toBe(1);
    const [notified = '', end] = fs.readFileSync(told, 'utf8').split(/(?<=\})\s*(?=end)/);
    expect(JSON.parse(notified)).toMatchObject({ event: 'failed', task: 'sh' });
    const none = { waiting: 0, running: 0, doneAlready: 0, fenced: 0, again: 0, retrying: 0 };
    expect(JSON.parse(notified)).toHaveProperty('counts', { ...none, done: 1, failed: 1 });
    expect(end).toBe('end 1\n');
  });

  it('hears of a notice once, tells every task, and ends with 75', async () => {
    const notice = path.join(place.dir, 'notice');
    const options = [
      '--array',
      '0-5',
      '-r',
      'r',
      '--memory',
      '64MiB',
      '--no-logs',
      '--cpus',
      '1',
      '--notice',
      `file:${notice}`,
    ];
    const run = array(place, options, task('trap "exit 0" TERM; sleep 100 & wait'));
    await running(0);
    fs.writeFileSync(notice, '');
    expect(await run.status, run.stderr()).toBe(75);
    expect(run.stderr()).toContain('every task ends, and goes on when this is run again');
    expect(place.records().map(({ record }) => record.kind)).toContain('preempted');
    expect(leftIn(place)).toEqual([]);
  });

  it('passes advice on to every task, which makes safe what is closed and goes on', async () => {
    const notice = path.join(place.dir, 'notice');
    const options = ['--array', '0', '-r', 'r', '--notice', `file:${notice}`];
    const run = array(place, options, task('while [ ! -e go ]; do sleep 0.1; done; echo 1 >r'));
    await running(0);
    fs.writeFileSync(`${notice}.new`, 'advice');
    fs.renameSync(`${notice}.new`, notice);
    const [root = ''] = fs.readdirSync(scratchOf(place));
    const at = (name: string): string => path.join(scratchOf(place), root, name);
    await until(() => fs.readFileSync(at('0.log'), 'utf8').includes('made safe now'), 'the task hears of it');
    fs.writeFileSync(at('0/go'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).toContain('this machine may be taken away: every task makes safe what is closed');
  });

  it('stops with all of its tasks at Ctrl-Z, and goes on with them', async () => {
    // One process: a stop that meets a new one between vfork(2) and execve(2) leaves the shell in D, and not in T.
    const text = `mkfifo go; : >${place.dir}/runs-$CAPTURED_INDEX; read go <go; echo 1 >r`;
    const run = array(place, ['--array', '0', '-r', 'r'], script(text));
    await running(0);
    const isStopped = (): boolean =>
      [run.pid, ...processesOf(place, 0)].every((pid) => (readStat(pid)?.state ?? 'T') === 'T');
    run.child.kill('SIGTSTP');
    await until(isStopped, 'all are stopped');
    run.child.kill('SIGCONT');
    await until(() => !isStopped(), 'they go on');
    const [root = ''] = fs.readdirSync(scratchOf(place));
    fs.writeFileSync(path.join(scratchOf(place), root, '0/go'), '');
    expect(await run.status, run.stderr()).toBe(0);
  });

  it('passes a second SIGINT on to the tasks, and kills them at a third', async () => {
    const told = path.join(place.dir, 'told');
    const hasTold = (signal: string): Promise<void> =>
      until(() => fs.existsSync(told) && fs.readFileSync(told, 'utf8').includes(signal), `it gets ${signal}`);
    // Nothing but the third one ends it.
    const run = array(
      place,
      ['--array', '0', '-r', 'r', '--grace', '1h'],
      task(`trap "echo TERM >>${told}" TERM; trap "echo INT >>${told}" INT; while :; do sleep 0.1; done`),
    );
    await running(0);
    run.child.kill('SIGINT');
    await run.says('SIGINT: every task is told to checkpoint and end');
    await hasTold('TERM');
    // Two within 300 ms are one.
    await sleep(310);
    run.child.kill('SIGINT');
    await run.says('SIGINT: every task is ended');
    await hasTold('INT');
    await sleep(310);
    run.child.kill('SIGINT');
    await run.says('SIGINT: all is killed');
    expect(await run.status, run.stderr()).toBe(130);
    expect(processesOf(place, 0)).toEqual([]);
  });

  it('runs a job file, and then one task of it alone', async () => {
    const job = path.join(place.dir, 'job.yaml');
    const text = 'array: 0-1\nresults: r\ncommand: echo "{index} $CAPTURED_SUBMIT_DIR" > r\n';
    fs.writeFileSync(job, `${text}to: ${place.store}\nnamespace: ada\nscratch: ${scratchOf(place)}\n`);
    const all = place.capture(['array', job]);
    expect(await all.status, all.stderr()).toBe(0);
    expect(place.text('ada/r.1')).toBe(`1 ${place.work}\n`);
    const one = place.capture(['run', job, '--index', '1', '--namespace', 'eve']);
    expect(await one.status, one.stderr()).toBe(0);
    expect(place.text('eve/r.1')).toBe(`1 ${place.work}\n`);
    const wrong = place.capture(['run', job, '--index', '2']);
    expect(await wrong.status).toBe(64);
    expect(wrong.stderr()).toContain(`'${job}', line 1: the job has no index 2`);
  });

  it.each([
    ['array', 'jobs/array.yaml'],
    ['queue', 'jobs/queue.yaml'],
    ['slurm', 'slurm/array.sbatch'],
    ['gridengine', 'gridengine/array.sge'],
    ['pbs', 'pbs/array.pbs'],
    ['lsf', 'lsf/array.lsf'],
    ['htcondor', 'htcondor/array.sub'],
    ['flux', 'flux/submit.sh'],
    ['gnu-parallel', 'gnu-parallel/sweep.sh'],
    ['apptainer', 'apptainer/array.sbatch'],
    ['kubernetes', 'kubernetes/native-sidecar.yaml'],
    ['aws-batch', 'aws-batch/job-definition.yaml'],
    ['google-batch', 'google-batch/job.json'],
    ['azure-batch', 'azure-batch/submit.sh'],
  ])('prints the template %s, which is examples/%s', async (name, file) => {
    const run = place.capture(['template', name], { USER: 'ada' });
    expect(await run.status, run.stderr()).toBe(0);
    const example = fs.readFileSync(new URL(`../../examples/${file}`, import.meta.url), 'utf8');
    expect(run.stdout()).toBe(example.replaceAll('your-name', 'ada'));
  });

  it('starts nothing if something is wrong: 64, 69, 127', async () => {
    const status = (args: readonly string[], task: readonly string[]): Promise<number> =>
      array(place, args, task).status;
    expect(await status(['--array', '0', '--scratch', '/no/such'], ['true'])).toBe(64);
    expect(await status(['--array', '0', '--joblog', '/no/such/log'], ['true'])).toBe(64);
    expect(await status(['--array', '0'], ['no-such-program'])).toBe(127);
    expect(await status(['--array', '0', '--jobs', 'x'], ['true'])).toBe(64);
    expect(await status(['--array', '0', '--cpus', '5000'], ['true'])).toBe(64);
    const ended = path.join(place.dir, 'ended');
    fs.writeFileSync(place.store, 'no directory');
    expect(await status(['--array', '0', '--on-end', `echo $CAPTURED_STATUS >${ended}`], ['true'])).toBe(69);
    // A machine that is paid for by the hour must not stay.
    expect(fs.readFileSync(ended, 'utf8')).toBe('69\n');
    expect(await status(['--array', '0'], ['true'])).toBe(69);
  });
});

describe('the exit status of an array', () => {
  const counts = { waiting: 0, running: 0, done: 5, doneAlready: 1, failed: 0, fenced: 0 };

  it.each([
    ['0 if all are done', {}, undefined, 0],
    ['0 if all are done, though it was told to stop', {}, 75, 0],
    ['1 if some failed', { failed: 1 }, undefined, 1],
    ['1 if --halt left some', { waiting: 3 }, undefined, 1],
    ['1 if some failed and others are fenced', { failed: 1, fenced: 1 }, undefined, 1],
    ['76 if all that lacks is with other attempts', { fenced: 2 }, undefined, 76],
    ['75 if a notice or SIGTERM left some, also when one failed', { waiting: 1, failed: 1 }, 75, 75],
    ['130 if Ctrl-C left some', { waiting: 1 }, 130, 130],
    ['1 if one failed and none waits, though it was told to stop', { failed: 1 }, 75, 1],
  ] as const)('is %s', (_, changes, stopped, status) => {
    expect(verdictOf({ ...counts, ...changes }, stopped)).toBe(status);
  });
});
