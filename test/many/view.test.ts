import { spawnSync } from 'node:child_process';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { drawnText, progressText, type Shown } from '../../src/many/view.ts';
import { Durations } from '../../src/model/many/eta.ts';
import { Plan } from '../../src/model/many/plan.ts';
import { clockMs } from '../../src/native/clock.ts';
import { BIN, openPlace, type Place } from '../e2e/support.ts';
import { scratchOf } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

/** 20 of 100 are done, each in a minute; `running` have just begun. */
function shown(running: number): Shown {
  const plan = new Plan({
    indices: { ranges: [{ first: 0, last: 99, step: 1 }] },
    retries: 0,
    halt: { kind: 'never' },
  });
  const durations = new Durations();
  const startedMs = clockMs();
  for (let index = 0; index < 20; index += 1) {
    plan.started(index, 0);
    plan.ended(index, { kind: 'done', status: 0, atMs: 60_000 });
    durations.add(60_000);
  }
  const indices = Array.from({ length: running }, (_, at) => at + 20);
  for (const index of indices) plan.started(index, startedMs);
  const needs = { cores: 1, memoryBytes: undefined };
  const tasks = indices.map((index) => ({ index, startedMs, needs, usedBytes: 2 ** 20, isEnding: false }));
  return { plan, durations, running: () => tasks };
}

it('says how far it is, and how long it takes by what has ended', () => {
  expect(progressText(shown(8))).toMatch(/^20 of 100 done, 8 running, 72 waiting; (9|10) min \d+ s left$/);
});

it('draws at most as many lines as the terminal has', () => {
  expect(drawnText(shown(4), 24).split('\n')).toHaveLength(6);
  const lines = drawnText(shown(50), 12).split('\n');
  expect(lines.length).toBeLessThan(12);
  expect(lines.at(-1)).toBe('  and 42 more');
});

it('draws on a terminal, and leaves only messages there', () => {
  const options = `--array 0-2 -r r --to '${place.store}' --scratch '${scratchOf(place)}'`;
  const command = `stty rows 12 cols 100; exec '${BIN}' array ${options} -- sh -c 'echo 1 >r; exit {index}'`;
  const { stdout } = spawnSync('script', ['-qefc', command, '/dev/null'], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], TERM: 'xterm-256color' },
    input: '',
  });
  expect(stdout).toMatch(/\] \d of 3 done/);
  // Behind the last message nothing is drawn any more.
  const end = stdout.slice(stdout.lastIndexOf('capture: 1 of 3 done, 2 failed'));
  expect(end).not.toContain('[###');
});
