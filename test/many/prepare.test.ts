// What --prepare makes on a worker's own machine.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPrepared, type Prepared } from '../../src/many/prepare.ts';
import { readStat } from '../../src/native/processes.ts';
import { isAlive, until } from '../e2e/support.ts';
import { submission } from './submissions.ts';

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-queue-'));
});
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

describe('--prepare', () => {
  let prepared: Prepared;
  let ownChildren: Set<number>;
  let mayBegin: boolean;
  beforeEach(() => {
    mayBegin = true;
    ownChildren = new Set();
    prepared = openPrepared({
      root: dir,
      env: process.env,
      log: { info: () => undefined },
      changed: () => undefined,
      mayBegin: () => mayBegin,
      ownChildren,
    });
  });
  afterEach(() => prepared.close());

  it('runs once, in a directory of its own that the tasks find and cannot write', async () => {
    const one = submission({ prepare: `echo x >>made; echo run >>${dir}/runs; mkdir sub; touch sub/file` });
    const other = { ...one, name: 'other' };
    expect(prepared.ask(one).kind).toBe('under-way');
    // Whoever adopts orphans leaves its exit status to Node.
    expect(ownChildren.size).toBe(1);
    await until(() => prepared.ask(one).kind === 'ready', 'it is ready');
    expect(prepared.ask(other).kind).toBe('ready');
    expect(ownChildren.size).toBe(0);
    expect(fs.readFileSync(path.join(dir, 'runs'), 'utf8')).toBe('run\n');
    const made = prepared.dirOf(one) ?? '';
    expect(fs.readFileSync(path.join(made, 'made'), 'utf8')).toBe('x\n');
    for (const name of ['.', 'made', 'sub', 'sub/file'])
      expect(fs.statSync(path.join(made, name)).mode & 0o222, name).toBe(0);
  });

  it('takes no right away from a file that has another name elsewhere', async () => {
    const theirs = path.join(dir, 'theirs');
    fs.mkdirSync(theirs);
    fs.writeFileSync(path.join(theirs, 'a'), 'mine', { mode: 0o644 });
    const one = submission({ prepare: `cp -al ${theirs} data; touch own` });
    prepared.ask(one);
    await until(() => prepared.ask(one).kind === 'ready', 'it is ready');
    const mode = (name: string): number => fs.statSync(name).mode & 0o222;
    expect(mode(path.join(theirs, 'a'))).toBe(0o200);
    const made = prepared.dirOf(one) ?? '';
    expect([mode(made), mode(path.join(made, 'data')), mode(path.join(made, 'own'))]).toEqual([0, 0, 0]);
  });

  it('says why it failed, and makes no directory that is used', async () => {
    const one = submission({ prepare: 'echo no compiler; exit 3' });
    prepared.ask(one);
    await until(() => prepared.ask(one).kind === 'never', 'it has failed');
    expect(prepared.dirOf(one)).toBeUndefined();
    expect(prepared.ask(one)).toMatchObject({
      why: expect.stringContaining('--prepare ended with exit status 3: no compiler'),
      hint: expect.stringMatching(/^look at .*\.log; then start this worker again$/),
    });
  });

  it('ends with all that it has started when its worker ends', async () => {
    const one = submission({
      prepare: `sleep 600 & echo $! >${dir}/pid.new; mv ${dir}/pid.new ${dir}/pid; wait`,
    });
    prepared.ask(one);
    await until(() => fs.existsSync(path.join(dir, 'pid')), 'it has started something');
    const pid = fs.readFileSync(path.join(dir, 'pid'), 'utf8').trim();
    await prepared.close();
    await until(() => !isAlive(Number(pid)), 'that has ended');
    expect(prepared.isUnderWay()).toBe(false);
  });

  it('leaves nothing at work, however it ended', async () => {
    for (const status of [0, 2]) {
      const one = submission({ prepare: `sleep 600 & echo $! >${dir}/left.${status}; exit ${status}` });
      prepared.ask(one);
      await until(() => !prepared.isUnderWay(), 'it has ended');
      const left = Number(fs.readFileSync(path.join(dir, `left.${status}`), 'utf8'));
      await until(() => !isAlive(left), 'and what it has left');
      expect(prepared.ask(one).kind).toBe(status === 0 ? 'ready' : 'never');
    }
  });

  it('begins only when it may, and stands still while it is held', async () => {
    // Without `exec`, a stop that meets the new process between vfork(2) and execve(2) leaves the shell in D, and not in T.
    const one = submission({
      prepare: `echo $$ >${dir}/pid.new; mv ${dir}/pid.new ${dir}/pid; exec sleep 600`,
    });
    mayBegin = false;
    expect(prepared.ask(one).kind).toBe('under-way');
    expect(prepared.isUnderWay()).toBe(false);
    mayBegin = true;
    prepared.ask(one);
    await until(() => fs.existsSync(path.join(dir, 'pid')), 'it has begun');
    const pid = Number(fs.readFileSync(path.join(dir, 'pid'), 'utf8'));
    prepared.hold(true);
    await until(() => readStat(pid)?.state === 'T', 'it stands still');
    prepared.hold(false);
    await until(() => readStat(pid)?.state !== 'T', 'it goes on');
  });

  it('leaves everything so that it can be removed', async () => {
    const one = submission({ prepare: 'mkdir -p a/b; touch a/b/c' });
    prepared.ask(one);
    await until(() => prepared.ask(one).kind === 'ready', 'it is ready');
    const made = prepared.dirOf(one) ?? '';
    await prepared.close();
    fs.rmSync(made, { recursive: true });
    expect(fs.existsSync(made)).toBe(false);
  });
});
