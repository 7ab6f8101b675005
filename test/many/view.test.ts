import { spawnSync } from 'node:child_process';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { drawnLines, type Progress, progressText } from '../../src/many/view.ts';
import { NO_NUMBERS } from '../../src/model/format/shared-sidecar.ts';
import { clockMs } from '../../src/native/clock.ts';
import { BIN, openPlace, type Place } from '../e2e/support.ts';
import { scratchOf } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

/** 20 of 100 are done, each in a minute; `running` have just begun. */
function progressOf(running: number, numbers = NO_NUMBERS): Progress {
  const startedMs = clockMs();
  const needs = { cores: 1, memoryBytes: undefined };
  return {
    counts: { done: 20, failed: 0, retried: 0, givenBack: 0, fenced: 0 },
    array: { size: 100, doneAlready: 0, waiting: 80 - running },
    running: Array.from({ length: running }, (_, at) => ({
      task: { label: String(at + 20) },
      startedMs,
      needs,
      usedBytes: 2 ** 20,
      isEnding: false,
    })),
    medianMs: 60_000,
    numbers,
  };
}

it('says how far it is, and how long it takes by what has ended', () => {
  expect(progressText(progressOf(8))).toMatch(
    /^20 of 100 done, 8 running, 72 waiting; (9|10) min \d+ s left$/,
  );
});

it('says what all tasks together have stored, and how far behind the slowest is', () => {
  const numbers = { lagMs: 300, waitingFiles: 2, storedFiles: 7, storedBytes: 3 * 2 ** 20 };
  expect(progressText(progressOf(8, numbers))).toContain('72 waiting; 3.0 MiB stored, behind by 300 ms; ');
});

it('says of a queue, which has no end, what was done here', () => {
  const counts = { done: 1200, failed: 1, retried: 3, givenBack: 2, fenced: 0 };
  const progress = { ...progressOf(2), counts, array: undefined };
  expect(progressText(progress)).toBe('1,200 done here, 2 running, 1 failed, 2 given back');
  expect(drawnLines(progress, SIZE).slice(0, 3)).toEqual([
    '1,200 done here',
    '2 running, 1 failed, 2 given back',
    '  task  for   memory',
  ]);
});

const SIZE = { rows: 24, columns: 80 };

it('draws a bar, the numbers and the tasks, in short lines', () => {
  const numbers = { lagMs: 300, waitingFiles: 2, storedFiles: 7, storedBytes: 3 * 2 ** 20 };
  const lines = drawnLines(progressOf(8, numbers), SIZE);
  expect(lines.slice(0, 6)).toEqual([
    '[######                        ] 20 %',
    expect.stringMatching(/^20 of 100 done; (9|10) min \d+ s left$/) as unknown,
    '8 running, 72 waiting',
    '3.0 MiB stored, behind by 300 ms',
    '  index  for   memory',
    '     20  0 s  1.0 MiB',
  ]);
  expect(lines).toHaveLength(13);
  // One that is made narrower breaks none of them.
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(40);
});

it.each([3, 7, 12, 24])('draws at most as many lines as a terminal of %i rows shows', (rows) => {
  for (const running of [1, 4, 50])
    expect(drawnLines(progressOf(running), { ...SIZE, rows }).length).toBeLessThan(rows);
});

it('says how many more run than it shows', () => {
  expect(drawnLines(progressOf(50), { ...SIZE, rows: 12 }).at(-1)).toBe('  and 44 more');
});

it('draws no line that is wider than the terminal', () => {
  const widest = drawnLines(progressOf(50), { ...SIZE, columns: 20 }).map((line) => line.length);
  expect(Math.max(...widest)).toBe(20);
});

it('draws on a terminal, and leaves only messages there', () => {
  const options = `--array 0-2 -r r --to '${place.store}' --scratch '${scratchOf(place)}'`;
  const command = `stty rows 12 cols 100; exec '${BIN}' array ${options} -- sh -c 'echo 1 >r; exit {index}'`;
  const { stdout } = spawnSync('script', ['-qefc', command, '/dev/null'], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], TERM: 'xterm-256color' },
    input: '',
  });
  expect(stdout).toMatch(/\d of 3 done; /);
  // Behind the last message nothing is drawn any more.
  const end = stdout.slice(stdout.lastIndexOf('capture: 1 of 3 done, 2 failed'));
  expect(end).not.toMatch(/\[[# ]+\]/);
});
