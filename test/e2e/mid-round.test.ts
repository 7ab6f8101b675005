// Whoever begins in the middle of a round, and programs that close their files more often than others: no set of two
// rounds is ever called good.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Generation } from '../../src/model/format/records.ts';
import { openPod } from './pod.ts';
import { openPlace, sidecarOf, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const generations = (): readonly Generation[] => place.records().at(-1)?.record.generations ?? [];
const good = (): readonly Generation[] =>
  generations().filter(({ instant, incomplete, suspect }) => !instant && !incomplete && !suspect);
/** Sets that are called good and hold more than one round. */
const mixed = (): readonly string[] =>
  good()
    .map(({ members }) => members.map(({ key }) => place.text(key).trim()).join(' '))
    .filter((rounds) => new Set(rounds.split(' ')).size > 1);

const options = ['-k', 'a.chk', '-k', 'b.chk', '--generations', '60', '--task-name', 't'];
/** `$i` is in a file once this round has begun. */
const rounds = (count: number, a: string, b: string): string[] => [
  'sh',
  '-c',
  `i=0; while [ $i -lt ${count} ]; do i=$((i+1)); ${a}; echo $i > ../at; sleep 0.1; ${b}; sleep 0.3; done`,
];
const at = (): number => {
  try {
    return Number(fs.readFileSync(`${place.dir}/at`, 'utf8'));
  } catch {
    return 0;
  }
};

describe('a watch that begins between two files of a round', () => {
  it.each(['handed over', 'alone'])('calls no set good: %s', async (how) => {
    const pod = openPod(place);
    if (how === 'handed over') await pod.handOff();
    const write = (name: string, round: number): void => fs.writeFileSync(place.at(name), String(round));
    write('a.chk', 1);
    write('b.chk', 1);
    write('a.chk', 2);
    await pod.watch(['--generations', '60']);
    for (let round = 2; round < 8; round += 1) {
      write('b.chk', round);
      write('a.chk', round + 1);
      const sets = generations().length;
      // oxlint-disable-next-line no-await-in-loop -- one round after the other
      await until(() => generations().length > Math.min(sets, 3), 'a set of this round');
    }
    expect(good()).toEqual([]);
  });
});

describe('a sidecar that dies between two files of a round', () => {
  it('is replaced by one that calls no set good before the task has ended', async () => {
    const run = place.run(options, rounds(14, 'echo $i > a.chk', 'echo $i > b.chk'));
    await until(() => at() === 5, 'the fifth round');
    const first = sidecarOf(run.pid);
    expect(good().map(({ proof }) => proof)).toContain('round');
    process.kill(first ?? 0, 'SIGKILL');
    expect(await run.status, run.stderr()).toBe(0);
    expect(mixed()).toEqual([]);
    expect(good()[0]?.proof).toBe('end');
    expect(good().filter(({ proof }) => proof === 'round').length).toBeLessThanOrEqual(3);
  });
});

describe('a task that closes a file twice', () => {
  it.each([
    ['in each round', 'echo $i > a.chk; sleep 0.02; echo $i > a.chk', 'echo $i > b.chk; echo $i > b.chk'],
    ['in the first', 'echo $i > a.chk; [ $i != 1 ] || { sleep 0.02; echo $i > a.chk; }', 'echo $i > b.chk'],
    ['in the fifth', 'echo $i > a.chk; [ $i != 5 ] || { sleep 0.02; echo $i > a.chk; }', 'echo $i > b.chk'],
    [
      'as it keeps a backup',
      '[ $i = 1 ] || mv a.chk a.bak; echo $i > a.chk',
      '[ $i = 1 ] || mv b.chk b.bak; echo $i > b.chk',
    ],
  ])('%s has no good set of two rounds, and a set at least every third round', async (_, a, b) => {
    const run = place.run(options, rounds(12, a, b));
    expect(await run.status, run.stderr()).toBe(0);
    expect(mixed()).toEqual([]);
    expect(generations().length).toBeGreaterThanOrEqual(4);
  });
});
