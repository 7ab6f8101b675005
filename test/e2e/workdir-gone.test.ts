// A task that cleans up behind itself: its own work directory is removed, or has another name, when it ends.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BIN, openPlace, sidecarOf, until, type Place } from './support.ts';

/** A mount in a namespace of its own: nothing stays of it. */
const mayMount = spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

let place: Place;
beforeEach(() => {
  place = openPlace();
}, 30_000);
afterEach(() => place.close());

const RESULTS = ['--results', 'r1', '--results', 'r2', '--results', 'sub/'];
/** Two results that are stored when the script goes on. */
const STORED = `echo one > r1; seq 1 20000 > r2; ${BIN} flush || exit 1`;

function task(script: string): readonly string[] {
  return ['env', `WORK=${place.work}`, 'sh', '-c', script];
}

function warnings(stderr: string): readonly string[] {
  return stderr.split('\n').filter((line) => line.includes('warning: '));
}

describe('a task that removes its work directory', () => {
  it('keeps its status and what was stored, with one warning', async () => {
    const run = place.run(['-r', 'r*'], task(`${STORED}; rm -rf "$WORK"; exit 0`));
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.keys().toSorted()).toEqual(['r1.0', 'r2.0.zst']);
    expect(warnings(run.stderr())).toEqual([expect.stringContaining('removed its work directory')]);
    expect(place.records().at(-1)?.record.kind).toBe('done');
  }, 30_000);

  it('keeps its status of its own, too', async () => {
    const run = place.run(RESULTS, task(`${STORED}; rm -rf "$WORK"; exit 3`));
    expect(await run.status, run.stderr()).toBe(3);
    expect(run.stderr()).not.toContain('internal error');
  }, 30_000);

  it('ends with 74 when it had closed something that was not stored by then', async () => {
    const go = `${place.dir}/go`;
    const wait = `while ! [ -e ${go} ]; do sleep 0.05; done`;
    const run = place.run(
      RESULTS,
      task(`echo begun; ${wait}; echo one > r1; rm -rf "$WORK"; touch ${go}2; sleep 0.2; exit 0`),
    );
    await run.says('begun');
    const sidecar = sidecarOf(run.pid);
    if (sidecar === undefined) throw new Error('there is no sidecar');
    // What is closed now is gone when the sidecar looks.
    process.kill(sidecar, 'SIGSTOP');
    fs.writeFileSync(go, '');
    await until(() => fs.existsSync(`${go}2`), 'the directory is removed');
    process.kill(sidecar, 'SIGCONT');
    expect(await run.status, run.stderr()).toBe(74);
    expect(run.stderr()).toContain('NOT stored: r1');
  }, 30_000);
}, 30_000);

it('a task that moves its work directory has all of it stored, and keeps the files that it moved', async () => {
  const run = place.run(
    RESULTS,
    task(`${STORED}; mv "$WORK" "$WORK.moved"; mkdir sub; echo late > sub/late; exit 0`),
  );
  expect(await run.status, run.stderr()).toBe(0);
  expect(place.keys().toSorted()).toEqual(['r1.0', 'r2.0.zst', 'sub/late.0']);
  expect(warnings(run.stderr())).toEqual([expect.stringContaining('.moved')]);
  expect(fs.readFileSync(`${place.work}.moved/sub/late`, 'utf8')).toBe('late\n');
}, 30_000);

it.runIf(mayMount)(
  'a task that mounts a file system over its work directory does not end as if all were stored',
  async () => {
    const covers = 'mount -t tmpfs none "$WORK" && cd "$WORK" && echo late > late';
    try {
      const run = place.run(['-r', '*'], task(`${STORED}; ${covers}; exit`));
      expect(await run.status, run.stderr()).toBe(74);
      expect(run.stderr()).toContain('NOT stored: . (a file system is mounted over it');
    } finally {
      execFileSync('umount', [place.work]);
    }
    expect(place.keys().toSorted()).toEqual(['r1.0', 'r2.0.zst']);
    expect(fs.readdirSync(place.work)).toEqual(expect.arrayContaining(['r1', 'r2']));
  },
  30_000,
);

describe('what capture cannot clear away of its own', () => {
  it('costs litter, and not the run: everything is stored', async () => {
    const litter = 'rm -f "$CAPTURED_SOCKET"; mkdir -p "$CAPTURED_SOCKET/x"';
    const run = place.run(['-r', 'r*'], task(`${litter}; echo one > r1; seq 1 20000 > r2`));
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.keys().toSorted()).toEqual(['r1.0', 'r2.0.zst']);
    expect(warnings(run.stderr())).toEqual([]);
  }, 30_000);
});
