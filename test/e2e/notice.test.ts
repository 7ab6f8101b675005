// A notice from a real source to a real task: what is stored, what the task is told, and the exit status.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPlace, type Place, type Run } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const FILES = ['-r', 'r.dat', '-k', 'k.chk', '--grace', '8s'];
const sh = (script: string): string[] => ['sh', '-c', script];
const last = (): ReturnType<Place['records']>[number]['record'] | undefined => place.records().at(-1)?.record;

/** Runs until the task has written its first checkpoint, then the file says that we will be stopped. */
async function noticed(script: string, options: readonly string[] = []): Promise<Run> {
  const notice = `${place.dir}/taken-away`;
  const run = place.run([...FILES, '--notice', `file:${notice}`, ...options], sh(script));
  await run.says('computing');
  fs.writeFileSync(notice, '');
  return run;
}

describe('a notice', () => {
  it('makes a task that handles SIGTERM save its state, and the next attempt goes on from it', async () => {
    const task = `
      trap 'echo saved > k.chk; exit 3' TERM
      if [ -e k.chk ]; then cat k.chk > r.dat; exit 0; fi
      echo computing; while :; do sleep 0.1; done`;
    const run = await noticed(task);
    expect(await run.status, run.stderr()).toBe(75);
    expect(run.stderr()).toContain('the task gets SIGTERM');
    expect(last()?.kind).toBe('preempted');
    expect(last()?.end?.reason).toContain('taken-away');
    place.freshWork();
    const next = place.run(FILES, sh(task));
    expect(await next.status, next.stderr()).toBe(0);
    expect(place.text('r.dat.0')).toBe('saved\n');
  });

  it('lets a task compute on that does not handle SIGTERM; what it closes until then is stored', async () => {
    const task = `echo computing; until [ -e go ]; do sleep 0.05; done; echo 1 > k.chk; echo more > late.dat; exec sleep 600`;
    const run = await noticed(task, ['-r', 'late.dat']);
    await run.says('computes on until then');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(75);
    expect(place.text('late.dat.0')).toBe('more\n');
    expect(last()?.kind).toBe('preempted');
  });

  it('does not make a task fail that exits 0 with its result', async () => {
    const run = await noticed(
      `trap 'echo done > r.dat; exit 0' TERM; echo computing; while :; do sleep 0.1; done`,
    );
    expect(await run.status, run.stderr()).toBe(0);
    expect(last()?.kind).toBe('done');
  });

  it('does not hold back what replaces a result while the task is not told', async () => {
    const task = `echo one > r.dat; echo computing
      until [ -e go ]; do sleep 0.05; done; echo two > r.dat; until [ -e end ]; do sleep 0.05; done`;
    const run = await noticed(task, ['--log-level', 'debug', '--grace', '60s']);
    await run.says('stored r.dat');
    fs.writeFileSync(place.at('go'), '');
    await run.says(/stored r\.dat[^]*stored r\.dat/);
    expect(place.text('r.dat.0')).toBe('two\n');
    fs.writeFileSync(place.at('end'), '');
    expect(await run.status, run.stderr()).toBe(0);
  });

  it('can be rehearsed', async () => {
    const run = place.run(
      [...FILES, '--notice', 'after:200ms'],
      sh('trap "exit 1" TERM; while :; do sleep 0.1; done'),
    );
    expect(await run.status, run.stderr()).toBe(75);
  });

  it('is none with --notice none', async () => {
    const run = place.run(
      [...FILES, '--notice', 'none'],
      sh('trap "echo got >> r.dat" USR1; kill -USR1 $PPID; sleep 1; cat r.dat'),
    );
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('got\n');
  });
});
