// A file that cannot be looked at is not gone: a set that lacks it is not whole, and a run that does not store it is no
// success. What the task itself has removed is gone.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isGood } from '../../src/model/checkpoint/restore-order.ts';
import { inNamespace } from '../support/namespace.ts';
import { BIN, openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace({ unprivileged: true });
});
afterEach(() => {
  if (fs.existsSync(place.at('b'))) fs.chmodSync(place.at('b'), 0o700);
  place.close();
});

const OPTIONS = ['--index', '0', '--drain-timeout', '2s'];

/** Both checkpoint files are stored as a set; then `lost` happens, and only the first is written again. */
function task(lost: string): readonly string[] {
  const script = `mkdir a b; echo 1 > a/k; echo 1 > b/k; "$BIN" flush
    ${lost}; echo 2 > a/k; "$BIN" flush --strict; echo $? > flushed`;
  return ['sh', '-c', script];
}

function lastSets(): readonly { readonly good: boolean; readonly paths: readonly string[] }[] {
  const { generations = [] } = place.records().at(-1)?.record ?? {};
  return generations.map((one) => ({ good: isGood(one), paths: one.members.map(({ path }) => path) }));
}

describe('a member of a checkpoint set', () => {
  const checkpoints = ['--checkpoints', 'a/k', '--checkpoints', 'b/k', ...OPTIONS];

  it.each([
    ['its directory', 'b', 'no checkpoint set is whole without b/k, and it cannot be read: EACCES'],
    ['the file', 'b/k', 'checkpoint b/k is not stored: permission denied'],
  ])('that cannot be read any more (%s) is missing, and not gone', async (_, shut, said) => {
    const run = place.run(checkpoints, task(`chmod 000 ${shut}`), { BIN });
    expect(await run.status, run.stderr()).toBe(74);
    expect(fs.readFileSync(place.at('flushed'), 'utf8')).not.toBe('0\n');
    for (const { good, paths } of lastSets()) expect(good ? paths : ['a/k', 'b/k']).toEqual(['a/k', 'b/k']);
    expect(run.stderr().split(said)).toHaveLength(2);
    expect(
      place
        .records()
        .at(-1)
        ?.record.left.map(({ path }) => path),
    ).toContain('b/k');
  });

  it('that the task has removed is gone: the set without it is whole', async () => {
    const run = place.run(checkpoints, task('rm b/k'), { BIN });
    expect(await run.status, run.stderr()).toBe(0);
    expect(lastSets()[0]).toEqual({ good: true, paths: ['a/k'] });
  });

  it('that lies on a file system which is unmounted is not gone', async () => {
    const command = [BIN, '--to', place.store, ...checkpoints, '--', ...task('umount b')];
    fs.mkdirSync(place.at('b'));
    const run = place.exec(inNamespace({ tmpfs: { [place.at('b')]: '1m' } }, command, place.work), { BIN });
    expect(await run.status, run.stderr()).toBe(74);
    for (const { good, paths } of lastSets()) expect(good ? paths : ['a/k', 'b/k']).toEqual(['a/k', 'b/k']);
  });
});

describe('a companion', () => {
  it('that cannot be read any more makes the sets that lack it incomplete, whatever open results there are', async () => {
    const options = ['--checkpoints', 'a/k', '--companions', 'b/*.log', '-r', 'b/z.out', ...OPTIONS];
    const log =
      'echo one > b/t.log; exec 3>>b/z.out; echo open >&3; echo 1 > a/k; "$BIN" flush; chmod 000 b; echo 2 > a/k; "$BIN" flush; true';
    const run = place.run(options, ['sh', '-c', `mkdir a b; ${log}`], { BIN });
    expect(await run.status, run.stderr()).toBe(74);
    const { generations = [] } = place.records().at(-1)?.record ?? {};
    expect(generations.map((one) => [isGood(one), one.companions.length])).toContainEqual([true, 2]);
    expect(generations.map((one) => isGood(one))).toContain(false);
    expect(isGood(generations[0] ?? ({ members: [], companions: [] } as never))).toBe(false);
    expect(run.stderr().split('companion b/t.log is not stored: it cannot be read: EACCES')).toHaveLength(2);
  });
});

describe('a result', () => {
  it.each([
    ['whose directory is shut before it is read', 'chmod 000 b'],
    ['that is shut before it is read', 'chmod 000 b/r.dat'],
  ])('%s is named, and the run is no success', async (_, shut) => {
    const run = place.run(['-r', 'b/*.dat', ...OPTIONS], ['sh', '-c', `mkdir b; ${closed(shut)}`]);
    expect(await run.status, run.stderr()).toBe(74);
    const left = place
      .records()
      .at(-1)
      ?.record.left.map(({ path }) => path);
    expect(left?.every((one) => one === 'b' || one === 'b/r.dat')).toBe(true);
    expect(left).not.toEqual([]);
  });

  it('on a file system that is unmounted before it is read is named, and the run is no success', async () => {
    fs.mkdirSync(place.at('b'));
    const options = ['--to', place.store, '-r', 'b/*.dat', ...OPTIONS];
    const command = [BIN, ...options, '--', 'sh', '-c', closed('umount b')];
    const run = place.exec(inNamespace({ tmpfs: { [place.at('b')]: '1m' } }, command, place.work));
    expect(await run.status, run.stderr()).toBe(74);
    const left = place.records().at(-1)?.record.left;
    expect(left).toEqual([
      { path: 'b/r.dat', why: expect.stringContaining('mounted or unmounted above it') },
    ]);
  });

  it('that the task removes before it is read is withdrawn', async () => {
    const run = place.run(['-r', 'b/*.dat', ...OPTIONS], ['sh', '-c', `mkdir b; ${closed('rm b/r.dat')}`]);
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.records().at(-1)?.record.left).toEqual([]);
  });

  /** The sidecar sleeps from before the close until after `act`. */
  function closed(act: string): string {
    const sidecar = 'for p in $(cat /proc/$PPID/task/$PPID/children); do [ $p = $$ ] || echo $p; done';
    return `s=$(${sidecar}); kill -STOP $s; echo x > b/r.dat; ${act}; kill -CONT $s`;
  }
});
