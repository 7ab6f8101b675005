// A notice from a real source to a real task: what is stored, what the task is told, and the exit status.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { metadataServer, type MetadataServer } from '../notices/metadata-server.ts';
import { openPlace, type Place, type Run, until } from './support.ts';

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
    expect(run.stderr()).toMatch(/capture: to be run again, exit 75: .*taken-away/);
    expect(last()?.kind).toBe('preempted');
    expect(last()?.end?.reason).toContain('taken-away');
    place.freshWork();
    const next = place.run(FILES, sh(task));
    expect(await next.status, next.stderr()).toBe(0);
    expect(place.text('r.dat.0')).toBe('saved\n');
  });

  it('lets a task compute on that does not handle SIGTERM; what it closes until then is stored', async () => {
    // It waits without another process: none may end when it closes its result, as that would be a doubtful close.
    execFileSync('mkfifo', [place.at('go')]);
    const task = `echo computing; read line < go; echo 1 > k.chk; echo more > late.dat; exec sleep 600`;
    const run = await noticed(task, ['-r', 'late.dat']);
    await run.says('computes on until ');
    await fs.promises.writeFile(place.at('go'), 'go\n');
    expect(await run.status, run.stderr()).toBe(75);
    expect(place.text('late.dat.0')).toBe('more\n');
    expect(last()?.kind).toBe('preempted');
  });

  it('lifts --bandwidth: what that would hold back for minutes is stored in time', async () => {
    const task = `
      const fs = require('fs');
      for (const n of [1, 2, 3, 4]) fs.writeFileSync('big' + n + '.dat', require('crypto').randomBytes(100_000));
      process.on('SIGTERM', () => process.exit(3));
      setInterval(() => 0, 1000);
      console.log('computing');`;
    fs.writeFileSync(place.at('task.cjs'), task);
    const notice = `${place.dir}/taken-away`;
    const options = [...FILES, '-r', 'big*.dat', '--bandwidth', '1kB/s', '--notice', `file:${notice}`];
    const run = place.run(options, [process.execPath, 'task.cjs']);
    await run.says('computing');
    await until(() => place.keys().length === 1, 'the first of them');
    fs.writeFileSync(notice, '');
    expect(await run.status, run.stderr()).toBe(75);
    expect(place.keys()).toEqual(['big1.dat.0', 'big2.dat.0', 'big3.dat.0', 'big4.dat.0']);
  });

  it('does not make a task fail that exits 0 with its result', async () => {
    const run = await noticed(
      `trap 'echo done > r.dat; exit 0' TERM; echo computing; while :; do sleep 0.1; done`,
    );
    expect(await run.status, run.stderr()).toBe(0);
    expect(last()?.kind).toBe('done');
  });

  it('replaces a result as soon as its doubt is settled while the task is not told', async () => {
    const task = `echo one > r.dat; echo computing
      until [ -e go ]; do sleep 0.05; done; echo two > r.dat; until [ -e end ]; do sleep 0.05; done`;
    const run = await noticed(task, ['--log-level', 'debug', '--grace', '60s']);
    await run.says('stored r.dat');
    fs.writeFileSync(place.at('go'), '');
    await until(() => place.text('r.dat.0') === 'two\n', 'the second content under the name of the result');
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

describe('EC2', () => {
  const META = '/latest/meta-data/';
  const stands = new Map<string, string>();
  let server: MetadataServer;
  beforeEach(async () => {
    stands.clear();
    server = await metadataServer(({ method, url }) => {
      if (method === 'PUT') return { body: 'token' };
      const body = stands.get(url.slice(META.length));
      return body === undefined ? { status: 404 } : { body };
    });
  });
  afterEach(() => server.close());
  const env = (): NodeJS.ProcessEnv => ({ AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url });
  const inSeconds = (seconds: number): string => new Date(Date.now() + seconds * 1000).toISOString();

  it('that recommends another machine makes what is closed safe, and disturbs the task no more', async () => {
    stands.set('events/recommendations/rebalance', JSON.stringify({ noticeTime: inSeconds(0) }));
    const task = sh(
      `trap 'echo told' TERM; echo a > k.chk; until [ -e end ]; do sleep 0.05; done; echo b > r.dat`,
    );
    // The set would not be complete by itself for an hour.
    const options = [...FILES, '--notice', 'ec2', '--log-level', 'debug', '--checkpoint-settle', '1h'];
    const run = place.run(options, task, env());
    await run.says('made safe now');
    await run.says('stored checkpoint k.chk');
    fs.writeFileSync(place.at('end'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).not.toContain('told');
    expect(last()?.kind).toBe('done');
  });

  it('that takes the machine away ends the run with 75 before its instant', async () => {
    const run = place.run(
      [...FILES, '--notice', 'ec2'],
      sh('echo a > k.chk; echo computing; exec sleep 600'),
      env(),
    );
    await run.says('computing');
    const atMs = Date.now() + 12_000;
    const time = new Date(atMs).toISOString();
    stands.set('spot/instance-action', JSON.stringify({ action: 'terminate', time }));
    expect(await run.status, run.stderr()).toBe(75);
    expect(Date.now()).toBeLessThan(atMs);
    expect(run.stderr()).toContain('EC2');
    expect(last()).toMatchObject({ kind: 'preempted', generations: [{ members: [{ path: 'k.chk' }] }] });
  });

  it('is heard by a watch too, which then stores what there is and ends', async () => {
    stands.set('spot/instance-action', JSON.stringify({ action: 'stop', time: inSeconds(8) }));
    const watch = place.capture(['watch', ...FILES, '--notice', 'ec2', '--to', place.store], env());
    await watch.says('EC2');
    fs.writeFileSync(place.at('r.dat'), 'late');
    expect(await watch.status, watch.stderr()).toBe(0);
    expect(place.text('r.dat.0')).toBe('late');
    expect(last()?.kind).toBe('ended');
    expect(last()?.end?.reason).toContain('EC2');
  });
});
