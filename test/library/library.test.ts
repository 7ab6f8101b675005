// The library as its users have it: what its functions resolve to, throw and tell, and that its processes keep what
// capture promises.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CaptureError } from '../../src/model/errors.ts';
import { errorOf } from '../../src/library/errors.ts';
import type * as Library from '../../src/library/library.ts';
import { until } from '../e2e/support.ts';
import { type Installed, installPackage } from './installed.ts';

let installed: Installed;
let library: typeof Library;
beforeAll(async () => {
  installed = await installPackage();
  ({ library } = installed);
});
afterAll(() => installed.close());

let dir: string;
let tmp: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(installed.dir, 'work-'));
  tmp = path.join(dir, 'tmp');
  fs.mkdirSync(tmp);
});
afterEach(() => fs.rmSync(dir, { recursive: true }));

const at = (name: string): string => path.join(dir, name);
const QUIET = ['ignore', 'ignore', 'ignore'] as const;

/** Settings of a task that keeps r.dat and s.chk. */
const settings = (script: string, index = 0): Library.RunSettings => ({
  to: at('store'),
  'task-name': 't',
  index,
  workdir: at(`work${index}`),
  results: 'r.dat',
  checkpoints: ['s.chk'],
  command: ['sh', '-c', script],
});
/** In a work directory of its own. */
function runTask(
  script: string,
  index = 0,
  options: Library.RunOptions = {},
): ReturnType<typeof Library.run> {
  fs.mkdirSync(at(`work${index}`), { recursive: true });
  return library.run(settings(script, index), { stdio: QUIET, ...options });
}

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** What `capture` itself prints. */
const printed = (...args: readonly string[]): string =>
  execFileSync(path.join(installed.dir, 'node_modules/capture-sidecar/bin/capture'), args, {
    encoding: 'utf8',
  });

describe('run', () => {
  it('tells each event, ends with the last one, and resolves to how the task ended', async () => {
    const work = runTask('echo 1 > s.chk; seq 9 > r.dat');
    const events = await all(work);
    expect(events.map(({ event }) => event)).toEqual(expect.arrayContaining(['start', 'fresh', 'end']));
    expect(events.at(-1)).toMatchObject({ event: 'end', index: '0', attempt: 1, kind: 'done' });
    expect(await work).toMatchObject({
      status: 0,
      end: { kind: 'done', results: 1, checkpoints: 1, left: [], recorded: true },
    });
  });

  it('keeps events for a reader that comes late, and for one that stopped', async () => {
    const work = runTask('seq 9 > r.dat', 0, { debug: true });
    await work;
    for await (const { event } of work) if (event === 'start') break;
    const rest = await all(work);
    expect(rest.map(({ event }) => event)).toEqual(expect.arrayContaining(['stored', 'end']));
    expect(rest.map(({ event }) => event)).not.toContain('start');
  });

  it('does not throw for a task that failed', async () => {
    expect(await runTask('exit 3')).toMatchObject({ status: 3, end: { kind: 'failed' } });
  });

  it('gives the task its streams, and nothing of what capture says', async () => {
    const [out, err] = [fs.openSync(at('out'), 'w'), fs.openSync(at('err'), 'w')];
    await runTask('echo hello; echo oh >&2; echo \'{"event":"end","kind":"forged"}\' >&2', 0, {
      stdio: ['ignore', out, err],
    });
    fs.closeSync(out);
    fs.closeSync(err);
    expect(fs.readFileSync(at('out'), 'utf8')).toBe('hello\n');
    expect(fs.readFileSync(at('err'), 'utf8')).toBe('oh\n{"event":"end","kind":"forged"}\n');
  });

  it('runs a task of a job file, with settings that win over it', async () => {
    fs.writeFileSync(
      at('job.yaml'),
      `array: 0-9\nresults: x\nto: ${at('store')}\ncommand: seq {index} > r.dat\n`,
    );
    const work = library.run({ job: 'job.yaml', index: 7, results: ['r.dat'] }, { cwd: dir, stdio: QUIET });
    expect(await work).toMatchObject({ status: 0, end: { results: 1 } });
  });

  it('lets an aborted task close what it has, and resolves to 75', async () => {
    const stopping = new AbortController();
    const script =
      "trap 'echo 9 > r.dat; exit 1' TERM; : > started; while [ -e started ]; do sleep 0.05; done";
    const work = runTask(script, 0, { signal: stopping.signal });
    await until(() => fs.existsSync(at('work0/started')), 'the task runs');
    stopping.abort();
    expect(await work).toMatchObject({ status: 75, end: { kind: 'preempted', left: [] } });
    // It may be half-written: the process that wrote it died.
    const name = fs.readdirSync(at('store')).find((one) => one.startsWith('r.dat')) ?? '';
    expect(fs.readFileSync(path.join(at('store'), name), 'utf8')).toBe('9\n');
  });

  it('starts nothing for a signal that is aborted already, and throws its reason', async () => {
    await expect(runTask(': > started', 0, { signal: AbortSignal.abort(new Error('no')) })).rejects.toThrow(
      'no',
    );
    expect(fs.existsSync(at('work0/started'))).toBe(false);
  });

  it('leaves nothing behind, neither after a run nor after a refusal', async () => {
    const program = `import { run } from 'capture-sidecar';
      const of = (more) => run({ to: ${JSON.stringify(at('store'))}, workdir: ${JSON.stringify(dir)}, command: ['true'], ...more });
      await of({ results: 'r.dat' });
      await of({ grace: 5 }).catch(() => undefined);`;
    const env = { ...process.env, TMPDIR: tmp };
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      cwd: installed.dir,
      env,
      stdio: 'ignore',
    });
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(fs.readdirSync(tmp)).toEqual([]);
  });

  it('stores what the task closes although the program was killed', async () => {
    fs.mkdirSync(at('work0'));
    const script =
      ': > started; while [ -e started ] && ! [ -e go ]; do sleep 0.05; done; echo hello; seq 9 > r.dat';
    const program = `import { run } from 'capture-sidecar'; await run(${JSON.stringify(settings(script))});`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      cwd: installed.dir,
      env: { ...process.env, TMPDIR: tmp },
      stdio: 'ignore',
    });
    await until(() => fs.existsSync(at('work0/started')), 'the task runs');
    child.kill('SIGKILL');
    await once(child, 'exit');
    fs.writeFileSync(at('work0/go'), '');
    const done = (): boolean =>
      fs.readdirSync(at('store/.capture/t/0')).some((name) => name.endsWith('.done.json'));
    await until(done, 'the record of the end');
    expect(fs.readFileSync(at('store/r.dat.0'), 'utf8')).toBe('1\n2\n3\n4\n5\n6\n7\n8\n9\n');
  });
});

describe('a look at the store', () => {
  let stored: string;
  beforeAll(async () => {
    stored = path.join(installed.dir, 'stored');
    for (const index of [0, 1]) {
      const to = { ...settings('echo 1 > s.chk; seq 9 > r.dat', index), to: stored, workdir: 'auto' };
      await library.run(to, { stdio: QUIET });
    }
  });
  beforeEach(() => fs.cpSync(stored, at('store'), { recursive: true, preserveTimestamps: true }));

  it('status resolves to what capture status --json prints', async () => {
    const found = await library.status(at('store'), { array: '0-2', details: true });
    expect(found.counts).toMatchObject({ done: 2, missing: 1 });
    const same = JSON.parse(printed('status', at('store'), '--json', '--details')) as Library.ArrayStatus;
    expect(found.indices).toEqual([...same.indices, { index: '2', state: 'missing' }]);
  });

  it('status of one index resolves to what its records say', async () => {
    const found = await library.status(at('store'), { index: 1 });
    expect(found).toEqual(JSON.parse(printed('status', at('store'), '1', '--json')));
    expect(found).toMatchObject({ state: 'done', attempts: [{ attempt: 1 }], results: [{ path: 'r.dat' }] });
  });

  it('verify gives what it found of each index, and whether all is whole', async () => {
    fs.rmSync(at('store/r.dat.1'));
    const work = library.verify(at('store'));
    expect(await all(work)).toMatchObject([
      { index: '0', damaged: [] },
      { index: '1', damaged: [{ path: 'r.dat', why: 'its object is not in the store' }] },
    ]);
    expect(await work).toEqual({ isWhole: false });
    expect(await library.verify(at('store'), { array: '0' })).toEqual({ isWhole: true });
  });

  it('gather counts what it has brought, what was there, and what is missing', async () => {
    const url = at('store');
    expect(await library.gather(url, at('out'))).toEqual({
      files: 2,
      bytes: 36,
      present: 0,
      missing: 0,
      isComplete: true,
    });
    fs.rmSync(at('out/0/r.dat'));
    fs.writeFileSync(at('out/1/r.dat'), 'mine');
    expect(await library.gather(url, at('out'))).toMatchObject({ files: 1, missing: 1, isComplete: false });
    await expect(library.gather(url, at('out'), { array: '0-2' })).rejects.toThrow(library.IncompleteError);
    const events = await all(library.gather(url, at('out'), { array: '0-2', incomplete: true }));
    expect(events).toMatchObject([
      { msg: expect.stringContaining('not done') },
      { event: 'damaged' },
      { event: 'summary' },
    ]);
  });

  it('restore brings the checkpoint', async () => {
    fs.mkdirSync(at('machine'));
    const { command: _, ...same } = settings('');
    expect(await library.restore({ ...same, workdir: at('machine') })).toMatchObject({
      generation: '1-1',
      files: 1,
    });
    expect(fs.readFileSync(at('machine/s.chk'), 'utf8')).toBe('1\n');
  });

  it('restore does not wait for a process that --verify-checkpoint has left behind', async () => {
    fs.mkdirSync(at('machine'));
    const { command: _, ...same } = settings('');
    const verify = `sleep 3600 & echo $! > '${at('pid')}'`;
    try {
      const restored = library.restore({ ...same, workdir: at('machine'), 'verify-checkpoint': verify });
      expect(await restored).toMatchObject({ generation: '1-1', files: 1 });
    } finally {
      process.kill(Number(fs.readFileSync(at('pid'), 'utf8')), 'SIGKILL');
    }
  });

  it('throws the reason of an abort', async () => {
    const stopping = new AbortController();
    const work = library.verify(at('store'), {}, { signal: stopping.signal });
    stopping.abort(new Error('enough'));
    await expect(work).rejects.toThrow('enough');
  });
});

describe('an error', () => {
  it('names all that is wrong with the settings, to who waits and to who iterates', async () => {
    const wrong = { ...settings('true'), workdir: dir, grace: 5, notice: 'nobody' };
    const work = library.run(wrong, { stdio: QUIET });
    const thrown = await all(work).catch((error: unknown) => error);
    await expect(work).rejects.toBe(thrown);
    expect(thrown).toBeInstanceOf(library.UsageError);
    expect(thrown).toBeInstanceOf(library.CaptureError);
    expect(thrown).not.toBeInstanceOf(library.MissingError);
    const { status, hint, mistakes } = thrown as Library.UsageError;
    expect({ status, hint, mistakes: mistakes.length }).toEqual({
      status: 64,
      hint: expect.any(String),
      mistakes: 2,
    });
  });

  it.each([
    ['UsageError', (): Promise<unknown> => library.status(at('store'), { 'no-such': true } as object)],
    ['UsageError', (): Promise<unknown> => library.status(at('store'), { unfinished: true } as object)],
    ['MissingError', (): Promise<unknown> => library.status(at('nothing'))],
    ['MissingError', (): Promise<unknown> => all(library.verify(at('nothing')))],
    [
      'ProgramError',
      (): Promise<unknown> =>
        library.run({ ...settings(''), workdir: dir, command: ['./none'] }, { stdio: QUIET }),
    ],
    ['CaptureError', (): Promise<unknown> => library.status(at('store'), {}, { cwd: at('nothing') })],
    [
      'CaptureError',
      (): Promise<unknown> =>
        library.status(at('store'), {}, { env: { PATH: '/usr/bin:/bin', CAPTURE_NODE: 'none' } }),
    ],
  ] as const)('is a %s, with a hint', async (name, refused) => {
    const thrown = await refused().catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(library[name]);
    expect(thrown).toMatchObject({
      name,
      hint: expect.stringMatching(/./),
      message: expect.stringMatching(/./),
    });
  });

  it.each([
    [1, 'IncompleteError'],
    [64, 'UsageError'],
    [66, 'MissingError'],
    [69, 'UnavailableError'],
    [70, undefined],
    [76, 'FencedError'],
    [126, 'ProgramError'],
    [127, 'ProgramError'],
  ] as const)('of the status %i is of the class %s alone', (status, name) => {
    const error = errorOf(status, [{ message: 'why', hint: 'what' }]);
    expect(error).toMatchObject({ status, message: 'why', hint: 'what', name: name ?? 'CaptureError' });
    expect(error).toBeInstanceOf(CaptureError);
    const classes = [
      'IncompleteError',
      'UsageError',
      'MissingError',
      'UnavailableError',
      'FencedError',
      'ProgramError',
    ] as const;
    expect(classes.filter((one) => error instanceof library[one])).toEqual(name === undefined ? [] : [name]);
  });
});
