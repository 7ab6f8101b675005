// An attempt whose launcher was killed, and whose index another attempt takes over: the sidecar ends the task.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { processesWithEnvironment } from '../../src/native/processes.ts';
import { isAlive, openPlace, type Place, type Run, sidecarOf, until } from './support.ts';

/** Outlives SIGTERM; one of its processes has left its group. Closes a result when the file `go` is there. */
const STUBBORN = `trap 'echo 1 > late.dat' TERM; setsid sleep 600 & sleep 600 & echo began $CAPTURED_RUN
  until [ -e go ]; do sleep 0.05; done; echo 1 > r.dat; while :; do sleep 1; done`;
const WAITS = 'until [ -e go ]; do sleep 0.05; done; echo 2 > r.dat';

let place: Place;
let first: Run;
let token = '';
let sidecar = 0;
let stranger: ChildProcess | undefined;

const sh = (script: string): string[] => ['sh', '-c', script];
const members = (): readonly number[] =>
  processesWithEnvironment(`CAPTURED_RUN=${token}`).filter((pid) => pid !== stranger?.pid);

/** Attempt 1: its task has three processes and closes nothing. */
beforeEach(async () => {
  place = openPlace();
  first = place.run(['-r', '*.dat', '--reclaim', 'now'], sh(STUBBORN));
  await first.says(/began \S+\n/);
  token = /began (\S+)\n/.exec(first.stdout())?.[1] ?? '';
  sidecar = sidecarOf(first.pid) ?? 0;
  await until(() => members().length >= 3, 'its processes');
});

afterEach(() => {
  stranger?.kill('SIGKILL');
  for (const pid of [...members(), sidecar]) if (pid !== 0 && isAlive(pid)) process.kill(pid, 'SIGKILL');
  place.close();
});

function recordsOfFirst(): readonly string[] {
  return place.records().flatMap(({ name, record }) => (record.attempt === 1 ? [name] : []));
}

async function secondAttempt(): Promise<Run> {
  place.freshWork();
  const second = place.run(['-r', 'r.dat'], sh(`echo goes on; ${WAITS}`));
  await second.says('goes on');
  return second;
}

interface End {
  /** Processes of the first attempt's task when its sidecar has ended. */
  readonly left: readonly number[];
  /** What the first attempt stored after it had told its task to end. */
  readonly storedLate: readonly string[];
  readonly said: string;
  readonly status: number;
  readonly result: string;
}

const ENDED: End = {
  left: [],
  storedLate: [],
  said: expect.stringMatching(/attempt 2 has taken this index over[^]*exit 76/),
  status: 0,
  result: '2\n',
};

async function endOf(second: Run, boundMs?: number): Promise<End> {
  const late = place.at('../work-1/late.dat');
  await until(() => fs.existsSync(late), 'SIGTERM to the task', boundMs);
  const recorded = recordsOfFirst();
  await until(() => !isAlive(sidecar), 'the end of the sidecar');
  const left = members();
  fs.writeFileSync(place.at('go'), '');
  const status = await second.status;
  const records = recordsOfFirst().filter((name) => !recorded.includes(name));
  const results = place.keys().filter((key) => key.startsWith('late.dat'));
  const said = first.stderr();
  return { left, storedLate: [...records, ...results], said, status, result: place.text('r.dat.0') };
}

describe('an attempt without a launcher ends its task and stores nothing more, if another one takes over', () => {
  it('before its launcher is killed; what a daemon has started for the task stays', async () => {
    const second = await secondAttempt();
    stranger = spawn('sleep', ['600'], { env: { ...process.env, CAPTURED_RUN: token } });
    process.kill(first.pid, 'SIGKILL');
    expect(await endOf(second)).toEqual(ENDED);
    expect(isAlive(stranger.pid ?? 0)).toBe(true);
  });

  it('after its launcher is killed, though the task closes nothing', async () => {
    process.kill(first.pid, 'SIGKILL');
    await first.says('the launcher is gone');
    // What it asks now is answered before the claim: only a later look finds that.
    expect(await endOf(await secondAttempt(), 60_000)).toEqual(ENDED);
  });

  it('and its launcher is killed while it waits for the end of the task', async () => {
    const goes = place.at('go');
    const second = await secondAttempt();
    fs.writeFileSync(goes, '');
    await first.says('attempt 2 has taken this index over');
    process.kill(first.pid, 'SIGKILL');
    expect(await endOf(second)).toEqual(ENDED);
  });
});
