// Files that a task keeps open for its whole run, and without which it cannot resume.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Generation } from '../../src/model/format/records.ts';
import {
  DEATH_STATUSES,
  LOGS,
  openLogs,
  OPTIONS,
  PACE_MS,
  resumeUntilDone,
  uninterrupted,
} from './open-logs.ts';
import { letGoOn, UNTIL_SET } from './letting-go-on.ts';
import { TELL_ALL } from '../support/messages.ts';
import { killTree, openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace({ below: '/dev/shm' });
});
afterEach(() => place.close());

const newest = (): Generation | undefined => place.records().at(-1)?.record.generations[0];

it('a task that keeps logs open ends with the files of one run, however often it is killed', async () => {
  const { steps, statuses, logs } = await resumeUntilDone(place, 9, 20_261_120);
  expect(steps).toEqual(steps.toSorted((a, b) => a - b));
  expect(steps.at(-1)).toBeGreaterThan(0);
  expect(statuses).toEqual([...Array.from({ length: 3 }, () => DEATH_STATUSES).flat(), 0]);
  expect(logs).toEqual(uninterrupted(place));
}, 180_000);

describe('companions', () => {
  /** Three checkpoints or more, and a TERM. */
  const interrupted = async (): Promise<void> => {
    const run = place.run([...OPTIONS, ...TELL_ALL], openLogs(PACE_MS));
    await run.tells('checkpoint', 3);
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status).toBe(75);
  };

  it('are stored in pieces that each hold only what is new', async () => {
    await interrupted();
    const companions = newest()?.companions ?? [];
    expect(companions.map(({ path }) => path)).toEqual(LOGS.toSorted());
    for (const { path, segments, size } of companions) {
      expect(segments.length).toBeGreaterThan(1);
      expect(
        segments.reduce((end, { first, size: bytes }) => (expect(first).toBe(end), end + bytes), 0),
      ).toBe(size);
      expect(segments.every(({ key }) => key.startsWith(`${path}.open-logs.mjs.0.1-`))).toBe(true);
      const joined = Buffer.concat(segments.map(({ key }) => place.stored(key)));
      expect(joined.equals(fs.readFileSync(place.at(path)))).toBe(true);
    }
  });

  it('are the older ones where a piece is damaged', async () => {
    const script = `exec 3>log; for i in 1 2; do echo $i >&3; echo $i > k.chk; ${UNTIL_SET}; done`;
    const options = ['-k', 'k.chk', '--companions', 'log', '--task-name', 't'];
    const first = place.run([...options, ...TELL_ALL], ['sh', '-c', script]);
    await letGoOn(first, place, 2);
    expect(await first.status).toBe(0);
    fs.writeFileSync(`${place.store}/${newest()?.companions[0]?.segments.at(-1)?.key}`, '?\n');
    place.freshWork();
    const again = place.run(options, ['cat', 'k.chk', 'log']);
    expect(await again.status).toBe(0);
    expect(again.stderr()).toContain('checkpoint 1-2 cannot be restored (log is corrupt');
    expect(again.stdout()).toBe('1\n1\n');
  });

  it('that stand in the work directory are neither fetched nor moved aside', async () => {
    await interrupted();
    fs.appendFileSync(place.at('log.txt'), 'beyond the checkpoint\n');
    const again = place.run(OPTIONS, openLogs(0));
    expect(await again.status).toBe(0);
    expect(fs.existsSync(place.at('.capture/aside'))).toBe(false);
    expect(again.stdout()).toMatch(/from [1-9]/);
    expect(fs.readFileSync(place.at('log.txt'), 'utf8')).not.toContain('beyond');
  });

  it('leave no piece in the store that no checkpoint needs', async () => {
    await interrupted();
    place.freshWork();
    expect(await place.run(OPTIONS, openLogs(0)).status).toBe(0);
    const named = place
      .records()
      .at(-1)
      ?.record.generations.flatMap(({ members, companions }) => [
        ...members.map(({ key }) => key),
        ...companions.flatMap(({ segments }) => segments.map(({ key }) => key)),
      ]);
    const attempt = place.records().at(-1)?.record.attempt;
    expect(place.keys()).toEqual(expect.arrayContaining([...new Set(named)]));
    // What a killed attempt had sent and not yet named stays behind; an attempt that ends leaves nothing of its own.
    const own = place.keys().filter((key) => key.includes(`.${attempt}-`));
    expect(own.filter((key) => named?.includes(key) !== true)).toEqual([]);
  });

  it('alone are enough where the task has no other checkpoint', async () => {
    const script = 'cat state.log 2>/dev/null; exec 3>>state.log; echo $N >&3; echo ready; sleep 600';
    const options = ['--companions', 'state.log', '--task-name', 't'];
    for (const n of [1, 2]) {
      const run = place.run(options, ['sh', '-c', script], { N: `line ${n}` });
      await run.says('ready');
      process.kill(run.pid, 'SIGTERM');
      expect(await run.status).toBe(75);
      place.freshWork();
    }
    const third = place.run(options, ['cat', 'state.log']);
    expect(await third.status).toBe(0);
    expect(third.stdout()).toBe('line 1\nline 2\n');
  });

  it('are stored every --companion-interval while the task computes, without a checkpoint and without a notice', async () => {
    const options = ['--companions', 'state.log', '--companion-interval', '1s', '--task-name', 't'];
    const run = place.run([...options, ...TELL_ALL], ['sh', '-c', 'exec 3>state.log; echo 1 >&3; sleep 600']);
    await run.tells('checkpoint', 1);
    killTree(run.pid);
    await run.status;
    place.freshWork();
    const second = place.run(options, ['cat', 'state.log']);
    expect(await second.status).toBe(0);
    expect(second.stdout()).toBe('1\n');
  });

  it('that are results as well are stored as results when they are closed', async () => {
    const task = ['sh', '-c', 'exec 3>log.txt; echo a >&3; echo 1 > k.chk; exec 3>&-'];
    expect(await place.run(['-r', 'log.txt', '--companions', 'log.txt', '-k', 'k.chk'], task).status).toBe(0);
    expect(place.text('log.txt.0')).toBe('a\n');
    expect(newest()?.companions.map(({ path, size }) => [path, size])).toEqual([['log.txt', 2]]);
  });

  it('that are results, were restored and not touched again are stored as results at the end', async () => {
    // Counted without another process: one that ends when k.chk is closed makes that close a doubtful one.
    const script = `n=0; while [ -e part.$((n+1)) ]; do n=$((n+1)); done; exec 7>part.$((n+1)); echo "line $n" >&7; echo $n > k.chk
      [ $n = 1 ] || { echo up; sleep 600; }`;
    const options = [
      '-k',
      'k.chk',
      ...['-r', '--companions', '-i'].flatMap((role) => [role, 'part.1', role, 'part.2']),
    ];
    const first = place.run([...options, '--task-name', 't'], ['sh', '-c', script]);
    await first.says(/up[^]*is safe|is safe[^]*up/);
    killTree(first.pid);
    await first.status;
    place.freshWork();
    const second = place.run([...options, '--task-name', 't'], ['sh', '-c', script]);
    expect(await second.status, second.stderr()).toBe(0);
    expect(place.text('part.1.0')).toBe('line 0\n');
    expect(place.text('part.2.0')).toBe('line 1\n');
  });
});
