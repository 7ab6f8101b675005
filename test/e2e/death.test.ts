// A death is not a close: whoever passes it on, and however late, what a killed process left half-written is
// never taken for good by the next attempt.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BIN, openPlace, program, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const OPTIONS = ['-k', 'k.chk', '-r', 'r.dat', '--task-name', 'sim'];
const SIM = `${process.execPath} ${program('die-mid-write.mjs')}`;
const PYTHON = `import subprocess, sys
sys.exit(1 if subprocess.run(sys.argv[1:]).returncode else 0)`;
/** Catches the failure, lives on until what the death closed is a checkpoint, and says that all is well. */
const HIDING = `import os, subprocess, sys, time
try:
    subprocess.run(sys.argv[1:], check=True)
except subprocess.CalledProcessError:
    while not os.path.exists('end'): time.sleep(0.02)`;
const NODE = `process.exitCode = require('child_process').spawnSync(process.argv[1], process.argv.slice(2)).status === 0 ? 0 : 1`;

const hasCheckpoint = (): boolean => place.records().some(({ record }) => record.kind === 'checkpoint');
const newest = (): unknown => place.records().at(-1)?.record.generations[0]?.suspect;

/** What the next attempt, in a fresh work directory, finds in its checkpoint. */
async function resumedFrom(options: readonly string[] = []): Promise<string> {
  place.freshWork();
  const run = place.run(['-k', 'k.chk', '--task-name', 'sim', ...options], ['cat', 'k.chk']);
  expect(await run.status, run.stderr()).toBe(0);
  return run.stdout();
}

describe('a program that is killed in the middle of a write', () => {
  it.each<[string, number, readonly string[]]>([
    ['itself is the task', 137, SIM.split(' ')],
    [
      'runs in a shell that passes the status on, later',
      137,
      ['bash', '-c', `${SIM}; rc=$?; sleep 0.5; exit $rc`],
    ],
    ['runs in a shell that ends with 1', 1, ['sh', '-c', `${SIM} || { sleep 0.3; exit 1; }`]],
    [
      'runs under an mpirun that ends its other ranks, and ends with 1',
      1,
      [program('mpirun-like.sh'), '3', ...SIM.split(' ')],
    ],
    ['runs in a pipeline', 137, ['bash', '-c', `set -o pipefail; ${SIM} | cat`]],
    ['runs in a Python program that ends with 1', 1, ['python3', '-c', PYTHON, ...SIM.split(' ')]],
    ['runs in a Node program that ends with 1', 1, [process.execPath, '-e', NODE, ...SIM.split(' ')]],
  ])('and %s leaves nothing torn for good', async (_, status, task) => {
    const run = place.run(OPTIONS, task);
    await until(() => hasCheckpoint() && place.keys().includes('r.dat.0'), 'the whole files');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(status);
    expect(place.text('r.dat.0')).toBe('whole\n');
    const partials = place.keys().filter((key) => key.startsWith('r.dat.0.partial-1'));
    expect(partials.map((key) => place.text(key))).toEqual(['tor']);
    expect(fs.readFileSync(place.at('r.dat'), 'utf8')).toBe('tor');
    expect(newest()).toBe(true);
    expect(await resumedFrom()).toBe('whole\n');
    expect(place.text('r.dat.0')).toBe('whole\n');
  });

  it('and hidden behind a 0 is seen by the user’s own check, and by nothing else', async () => {
    const run = place.run(OPTIONS, ['python3', '-c', HIDING, ...SIM.split(' ')]);
    await until(() => hasCheckpoint() && place.keys().includes('r.dat.0'), 'the whole files');
    const [before] = place.records().at(-1)?.record.generations ?? [];
    fs.writeFileSync(place.at('go'), '');
    const isTaken = (): boolean =>
      place.records().at(-1)?.record.generations[0]?.generation !== before?.generation;
    await until(isTaken, 'a checkpoint of what the death closed');
    fs.writeFileSync(place.at('end'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(newest()).toBeUndefined();
    expect(await resumedFrom(['--verify-checkpoint', 'grep -q whole k.chk'])).toBe('whole\n');
  });

  it('the first time that it writes leaves a result beside its key, and a checkpoint that is the last resort', async () => {
    const script = 'exec 3> r.dat 4> k.chk; echo half >&3; echo half >&4; kill -9 $$';
    expect(await place.run(OPTIONS, ['sh', '-c', script]).status).toBe(137);
    expect(place.keys()).toEqual(expect.arrayContaining(['k.chk.sim.0.1-1', 'r.dat.0.partial-1']));
    expect(place.keys()).not.toContain('r.dat.0');
    expect(newest()).toBe(true);
    expect(await resumedFrom()).toBe('half\n');
  });

  // Node has no name for it, and tells it as it tells an exit with 0.
  it.each([34, 40, 64])('by the real-time signal %i is no success', async (number) => {
    const script = `exec 3> r.dat; echo half >&3; kill -${number} $$`;
    const run = place.run(OPTIONS, ['sh', '-c', script]);
    expect(await run.status, run.stderr()).toBe(128 + number);
    expect(place.keys()).toEqual(['r.dat.0.partial-1']);
    expect(fs.readFileSync(place.at('r.dat'), 'utf8')).toBe('half\n');
    const { kind, end } = place.records().at(-1)?.record ?? {};
    expect(kind).toBe('failed');
    expect(end).toMatchObject({ signal: `SIG${number}`, status: 128 + number });
    expect(run.stderr()).toContain(`failed: SIG${number} ended the task, exit ${128 + number}`);
  });
});

describe('with --generations 1', () => {
  const one = ['-k', 'k.chk', '--task-name', 'sim', '--generations', '1'];
  const names = (): readonly number[] =>
    place
      .records()
      .at(-1)
      ?.record.generations.map(({ generation }) => generation) ?? [];

  it('the set before stays until a death could no longer make the newer one suspect', async () => {
    const run = place.run(one, ['sh', '-c', `${SIM}; until [ -e end ]; do sleep 0.05; done; exit 1`]);
    await until(hasCheckpoint, 'the whole file');
    fs.writeFileSync(place.at('go'), '');
    // What the death left is committed before anybody can know of the death.
    await until(() => names()[0] === 2, 'the torn file');
    fs.writeFileSync(place.at('end'), '');
    expect(await run.status, run.stderr()).toBe(1);
    expect(newest()).toBe(true);
    expect(await resumedFrom()).toBe('whole\n');
  });

  it('one set is left when the task ends well', async () => {
    const script =
      'echo a > k.chk; until [ -e go ]; do sleep 0.05; done; echo b > k.chk; until [ -e end ]; do sleep 0.05; done';
    const run = place.run(one, ['sh', '-c', script]);
    await until(hasCheckpoint, 'the first set');
    fs.writeFileSync(place.at('go'), '');
    await until(() => names()[0] === 2, 'the second set');
    fs.writeFileSync(place.at('end'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(names()).toEqual([2]);
    expect(place.keys()).toEqual(['k.chk.sim.0.1-2']);
  });

  it('a set whose files were renamed into place is proven at once', async () => {
    const script =
      'for c in a b; do echo $c > new; mv new k.chk; "$CAPTURE" flush || exit 9; done; until [ -e end ]; do sleep 0.05; done';
    const run = place.run(one, ['sh', '-c', script], { CAPTURE: BIN });
    await until(() => names()[0] === 2, 'the second set');
    await until(() => place.keys().join(' ') === 'k.chk.sim.0.1-2', 'the deletion of the first');
    fs.writeFileSync(place.at('end'), '');
    expect(await run.status, run.stderr()).toBe(0);
  });
});

describe('a task that is told to end', () => {
  const told = async (how: string): Promise<void> => {
    const run = place.run(
      ['-k', 'k.chk', '--task-name', 'sim'],
      [process.execPath, program('checkpoint-on-term.mjs'), how],
    );
    await run.says('up');
    await until(hasCheckpoint, 'the first checkpoint');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
  };

  it.each(['rename', 'in-place'])(
    'and writes its last checkpoint (%s) resumes from that one',
    async (how) => {
      await told(how);
      expect(newest()).toBeUndefined();
      expect(await resumedFrom()).toBe('last\n');
    },
  );

  it('and is killed while it writes its last checkpoint resumes from the one before', async () => {
    await told('die');
    expect(newest()).toBe(true);
    expect(await resumedFrom()).toBe('first\n');
  });

  it('before capture hears of it, as a scheduler signals process by process, is preempted all the same', async () => {
    const script = 'echo step > k.chk; echo $$ > pid.new; mv pid.new pid; exec sleep 600';
    const run = place.run(['-k', 'k.chk', '--task-name', 'sim'], ['sh', '-c', script]);
    await until(() => fs.existsSync(place.at('pid')) && hasCheckpoint(), 'the first checkpoint');
    const pid = Number(fs.readFileSync(place.at('pid'), 'utf8'));
    process.kill(pid, 'SIGTERM');
    await until(() => !fs.existsSync(`/proc/${pid}`), 'capture knows how it ended');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
    expect(place.records().at(-1)?.record).toMatchObject({ kind: 'preempted' });
  });
});
