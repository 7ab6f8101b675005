// The next attempt: a preempted run asks Slurm for it, and after too many in vain it asks no more. Slurm is a
// scontrol of the test's own; test/real/slurm.test.ts does the same with a real one.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BIN, isAlive, openPlace, program, type Place, type Run } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const SLURM = {
  PATH: `${program('slurm-bin')}:${process.env['PATH']}`,
  SLURM_JOB_ID: '7',
  SLURM_ARRAY_JOB_ID: '7',
  SLURM_ARRAY_TASK_ID: '3',
};
const RUNNING = 'JobState=RUNNING Restarts=0';
const sh = (script: string): string[] => ['sh', '-c', script];

describe('--requeue slurm', () => {
  const log = (): string => path.join(place.dir, 'scontrol.log');
  // The sidecar asks, too, to say who sent SIGTERM.
  const asked = (): string[] =>
    fs.existsSync(log()) ? [...new Set(fs.readFileSync(log(), 'utf8').trim().split('\n'))] : [];
  const start = (script: string, env: NodeJS.ProcessEnv = {}): Run =>
    place.run(['-r', 'r.dat', '--requeue', 'slurm'], sh(script), {
      ...SLURM,
      SCONTROL_LOG: log(),
      SCONTROL_JOB: RUNNING,
      CAPTURE_NODE: process.execPath,
      ...env,
    });
  const preempt = async (env: NodeJS.ProcessEnv = {}): Promise<Run> => {
    // The machine may have a Slurm of its own.
    fs.mkdirSync(place.at('bin'));
    for (const name of ['sh', 'sleep']) fs.symlinkSync(`/bin/${name}`, place.at(`bin/${name}`));
    const run = start('echo up; exec sleep 60', env);
    await run.says('up');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
    return run;
  };

  it('requeues its task of the array as the last step of a preempted run', async () => {
    const run = await preempt();
    expect(asked()).toEqual(['-o show job 7_3', 'requeue 7_3']);
    expect(run.stderr()).toMatch(/stored 0 results[^\n]*\n\S+ capture: job 7_3 is requeued\n$/);
    expect(place.records().at(-1)?.record.kind).toBe('preempted');
  });

  it('hears how it went although requeueing ends every process of the job', async () => {
    const run = await preempt({ SCONTROL_KILLS: '1' });
    expect(run.stderr()).toMatch(/capture: job 7_3 is requeued\n$/);
  });

  it.each([
    ['has requeued it already', 'JobState=COMPLETING Restarts=1', 'Slurm has requeued job 7_3 already'],
    ['was told to end it', 'JobState=COMPLETING Reason=None Restarts=0', 'was cancelled: it is not requeued'],
  ])('leaves it when Slurm %s', async (_, shown, said) => {
    const run = await preempt({ SCONTROL_JOB: shown });
    expect(asked()).toEqual(['-o show job 7_3']);
    expect(run.stderr()).toContain(said);
  });

  it.each([
    [
      'fails',
      { SCONTROL_FAILS: 'Access/permission denied' },
      'could not be requeued: Access/permission denied',
    ],
    ['is not there', { PATH: 'bin' }, /could not be requeued: [^\n]*scontrol[^\n]*not found/],
  ])('warns and keeps the status when scontrol %s', async (_, env, said) => {
    const run = await preempt(env);
    expect(run.stderr()).toMatch(said);
    expect(run.stderr()).toMatch(/\n {2}try: scontrol requeue 7_3; [^\n]+\n$/);
  });

  it('is done when scontrol is, although a process that it left behind holds its pipes', async () => {
    const left = path.join(place.dir, 'left');
    try {
      const run = await preempt({ SCONTROL_LEAVES: left });
      expect(run.stderr()).toMatch(/capture: job 7_3 is requeued\n$/);
    } finally {
      const pids = fs.readFileSync(left, 'utf8').trim().split('\n').map(Number);
      // Each call has left one. Those of the launcher are still there.
      const there = pids.filter((pid) => isAlive(pid));
      for (const pid of there) process.kill(pid, 'SIGKILL');
      expect(there.length).toBeGreaterThanOrEqual(2);
    }
  });

  it('keeps the status when scontrol prints without end', async () => {
    const run = await preempt({ SCONTROL_PRINTS: 'something about a plugin that did not load' });
    expect(run.stderr()).toContain('could not be requeued: it printed more than 1.0 MiB');
  });

  it.each([
    ['scontrol itself', 'itself'],
    ['what a script of that name has started', 'child'],
  ])(
    'does not wait for a controller that does not answer until SIGKILL comes: %s hangs',
    async (_, hangs) => {
      const run = await preempt({ SCONTROL_HANGS: hangs, CAPTURE_GRACE: '1s' });
      const [, most] = /requeued: no answer within ([\d.]+) ?m?s/.exec(run.stderr()) ?? [];
      // Of the 10 s that it has elsewhere: the grace, and 2 s of the 3 that are left then.
      expect(Number(most), run.stderr()).toBeLessThan(5);
      expect(asked()).toEqual(['-o show job 7_3']);
    },
  );

  it.each([
    ['succeeds', 'echo x > r.dat', 0],
    ['fails', 'exit 3', 3],
  ])('does nothing when the task %s', async (_, script, status) => {
    const run = start(script);
    expect(await run.status, run.stderr()).toBe(status);
    expect(asked()).toEqual([]);
  });
});

describe('--max-attempts 2', () => {
  const attempt = async (script: string, options: readonly string[] = []): Promise<Run> => {
    place.freshWork();
    const declared = ['-k', 'k.chk', '--task-name', 'sim', '--max-attempts', '2', '--again-status', '9'];
    const run = place.run([...declared, ...options], sh(script));
    await run.status;
    return run;
  };
  const IN_VAIN = 'exit 9';
  const AHEAD = 'echo x >> k.chk; exit 9';

  it("ends with the task's status after two attempts without a newer checkpoint, and says so", async () => {
    expect(await (await attempt(AHEAD)).status).toBe(75);
    expect(await (await attempt(IN_VAIN)).status).toBe(75);
    // A newer checkpoint begins the count again.
    expect(await (await attempt(AHEAD)).status).toBe(75);
    expect(await (await attempt(IN_VAIN)).status).toBe(75);
    const last = await attempt(IN_VAIN);
    expect(await last.status, last.stderr()).toBe(9);
    const reason = '2 attempts without a newer checkpoint (--max-attempts 2)';
    expect(last.stderr().trim().split('\n').at(-1)).toContain(`not to be run again: ${reason}`);
    expect(place.records().at(-1)).toMatchObject({
      name: expect.stringMatching(/^0005-\d+\.failed-9$/),
      record: { kind: 'failed', end: { code: 9, status: 9, reason } },
    });
  });

  it('ends with 74 when the task ends with 0 and without the result that counts', async () => {
    const unfinished = ['--done-when', 'end.dat'];
    expect(await (await attempt('true', unfinished)).status).toBe(75);
    expect(await (await attempt('true', unfinished)).status).toBe(74);
  });

  it('says nothing of a task that succeeds', async () => {
    await attempt(IN_VAIN);
    const run = await attempt('true');
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).not.toContain('not to be run again');
  });
});

describe('in a batch script', () => {
  const WARNING = /warning: the batch script waits for capture[^\n]*\n {2}try: use 'exec capture \.\.\.'\n/g;

  it.each([
    ['that waits for capture', 'capture "$@"; exit $?', SLURM, 1],
    ['that execs capture', 'exec capture "$@"', SLURM, 0],
    ['with a trap', 'trap "kill -USR1 $!" USR1; capture "$@" & wait', SLURM, 0],
    ['outside of Slurm', 'capture "$@"; exit $?', {}, 0],
  ])('%s: so many warnings', async (_, script, env, times) => {
    const file = path.join(place.dir, 'slurm_script');
    fs.writeFileSync(file, `PATH=${path.dirname(BIN)}:$PATH\n${script}\n`);
    const run = place.exec(['sh', file, '-r', 'r.dat', '--', 'sh', '-c', 'echo x > r.dat'], env);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr().match(WARNING) ?? []).toHaveLength(times);
  });
});
