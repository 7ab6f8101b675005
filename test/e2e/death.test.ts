// A death is not a close: whoever passes it on, and however late, what a killed process left half-written is
// never taken for good by the next attempt.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPlace, program, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const OPTIONS = ['-k', 'k.chk', '-r', 'r.dat', '--task-name', 'sim'];
const SIM = `${process.execPath} ${program('die-mid-write.mjs')}`;
const PYTHON = `import subprocess, sys
sys.exit(1 if subprocess.run(sys.argv[1:]).returncode else 0)`;
const NODE = `process.exitCode = require('child_process').spawnSync(process.argv[1], process.argv.slice(2)).status === 0 ? 0 : 1`;

const hasCheckpoint = (): boolean => place.records().some(({ record }) => record.kind === 'checkpoint');
const newest = (): unknown => place.records().at(-1)?.record.generations[0]?.suspect;

/** What the next attempt, in a fresh work directory, finds in its checkpoint. */
async function resumedFrom(): Promise<string> {
  place.freshWork();
  const run = place.run(['-k', 'k.chk', '--task-name', 'sim'], ['cat', 'k.chk']);
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
    ['runs in a pipeline', 137, ['bash', '-c', `set -o pipefail; ${SIM} | cat`]],
    ['runs in a Python program that ends with 1', 1, ['python3', '-c', PYTHON, ...SIM.split(' ')]],
    ['runs in a Node program that ends with 1', 1, [process.execPath, '-e', NODE, ...SIM.split(' ')]],
  ])('and %s leaves nothing torn for good', async (_, status, task) => {
    const run = place.run(OPTIONS, task);
    await until(() => hasCheckpoint() && place.keys().includes('r.dat.0'), 'the whole files');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(status);
    expect(place.text('r.dat.0')).toBe('whole\n');
    expect(place.text('r.dat.0.partial-1')).toBe('tor');
    expect(fs.readFileSync(place.at('r.dat'), 'utf8')).toBe('tor');
    expect(newest()).toBe(true);
    expect(await resumedFrom()).toBe('whole\n');
    expect(place.text('r.dat.0')).toBe('whole\n');
  });

  it('the first time that it writes leaves a result beside its key, and a checkpoint that is the last resort', async () => {
    const script = 'echo half > r.dat; echo half > k.chk; kill -9 $$';
    expect(await place.run(OPTIONS, ['sh', '-c', script]).status).toBe(137);
    expect(place.keys()).toEqual(['k.chk.sim.0.1-1', 'r.dat.0.partial-1']);
    expect(newest()).toBe(true);
    expect(await resumedFrom()).toBe('half\n');
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
});
