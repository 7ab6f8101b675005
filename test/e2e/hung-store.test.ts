// A directory store on a file server that hangs: no call on it returns. A FUSE file system without a daemon does that, as
// long as its device is open. Every deadline is kept all the same, and the exit status tells what was not stored.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inNamespace } from '../support/namespace.ts';
import { BIN, isAlive, openPlace, type Place, type Run, until } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
  fs.mkdirSync(place.store, { recursive: true });
});
afterEach(() => place.close());

/** The device is closed with the last process that has it: capture, and its task. */
const DEVICE = 'exec 9<>/dev/fuse';
const HANG = 'mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none';

function mayMount(): boolean {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-hung-'));
  const [program = '', ...words] = inNamespace({}, ['sh', '-c', `${DEVICE}; mkdir m; ${HANG} m`], dir);
  const { status } = spawnSync(program, words);
  fs.rmSync(dir, { recursive: true });
  return status === 0;
}

/** With the pid of capture, whose shell becomes it. */
function start(command: readonly string[], hangs: 'first' | 'later'): Run {
  const before = hangs === 'first' ? `${DEVICE}; ${HANG} "$STORE"` : DEVICE;
  const script = ['sh', '-c', 'echo $$ > "$0"; exec "$@"', path.join(place.dir, 'pid'), BIN, ...command];
  return place.exec(inNamespace({ before }, script, place.work), { STORE: place.store });
}
const signal = (name: NodeJS.Signals): boolean =>
  process.kill(Number(fs.readFileSync(path.join(place.dir, 'pid'), 'utf8')), name);
const options = (): readonly string[] => [
  '-r',
  'r*',
  '--to',
  place.store,
  '--task-name',
  't',
  '--index',
  '0',
];

describe.skipIf(!mayMount())('a store that hangs (skipped if FUSE cannot be mounted here)', () => {
  it.each([
    ['--drain-timeout ends', ['--drain-timeout', '2s'], () => true],
    ['SIGTERM and the grace end', ['--grace', '3s'], () => signal('SIGTERM')],
  ])('while the task runs: %s the run with 74', async (_, more, end) => {
    const task = `echo $$ > pid; echo 1 > r1; until [ -e "$STORE/r1.0" ]; do sleep 0.02; done; ${HANG} "$STORE"; echo 2 > r2`;
    const run = start([...options(), ...more, '--', 'sh', '-c', task], 'later');
    const pid = (): number => Number(fs.readFileSync(place.at('pid'), 'utf8'));
    await until(() => fs.existsSync(place.at('r2')) && !isAlive(pid()), 'the end of the task');
    end();
    expect(await run.status, run.stderr()).toBe(74);
    expect(run.stderr()).toContain('NOT stored: r2');
    expect(run.stderr()).toContain('the last record is NOT written');
  });

  it('from the beginning: the task does not start, and --drain-timeout ends the run with 69', async () => {
    const run = start([...options(), '--drain-timeout', '2s', '--', 'touch', 'started'], 'first');
    expect(await run.status, run.stderr()).toBe(69);
    expect(run.stderr()).toContain('waited for it for 2.0 s');
    expect(fs.existsSync(place.at('started'))).toBe(false);
  });

  it('from the beginning: SIGTERM ends the run with 75', async () => {
    const run = start([...options(), '--', 'touch', 'started'], 'first');
    await run.says('no answer yet');
    signal('SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s ends a command that waits for it', async (name, status) => {
    const run = start(['status', place.store, '--task-name', 't', '--log-level', 'debug'], 'first');
    await until(waits, 'a call that hangs');
    signal(name);
    expect(await run.status, run.stderr()).toBe(status);
  });
});

/** A thread of capture waits for the file server. */
function waits(): boolean {
  try {
    const pid = fs.readFileSync(path.join(place.dir, 'pid'), 'utf8').trim();
    return fs
      .readdirSync(`/proc/${pid}/task`)
      .map((thread) => fs.readFileSync(`/proc/${pid}/task/${thread}/wchan`, 'latin1'))
      .some((where) => /fuse|request_wait_answer/.test(where));
  } catch {
    return false; // not started yet
  }
}
