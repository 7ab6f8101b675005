// What the task closed itself keeps its name, however the task ends; what a death closed is never taken for whole,
// also when the machine is gone before anybody could say that it was a death.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isAlive, killTree, openPlace, sidecarOf, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const bash = (script: string): readonly string[] => ['bash', '-c', script];
const node = (script: string): readonly string[] => [
  process.execPath,
  '-e',
  `const fs = require('fs'); ${script}`,
];
/** Bash that is killed in the middle of writing files. */
const torn = (...names: readonly string[]): string =>
  `bash -c 'exec ${names.map((name, n) => `${n + 3}>${name}`).join(' ')}; ${names.map((_, n) => `printf half >&${n + 3}`).join('; ')}; kill -9 $$'`;
/** Starts no process: the end of one would cast doubt on what is closed next. */
const wait = 'until [ -e go ]; do :; done';
const names = (): readonly string[] => place.keys().toSorted();
const generations = (): readonly string[] =>
  (place.records().at(-1)?.record.generations ?? []).map(
    ({ generation, unproven, suspect }) =>
      `${generation}${unproven === true ? ' unproven' : ''}${suspect === true ? ' suspect' : ''}`,
  );

describe('what the task closed itself keeps its name', () => {
  it('when it ends with a status of its own after 40 results', async () => {
    const script = `for (let n = 0; n < 40; n += 1) fs.writeFileSync('r.' + n + '.dat', 'x' + n); setTimeout(() => process.exit(6), 500);`;
    const run = place.run(['-r', 'r.*.dat'], node(script));
    expect(await run.status, run.stderr()).toBe(6);
    expect(names()).toHaveLength(40);
    expect(names().filter((key) => key.includes('partial'))).toEqual([]);
    expect(run.stderr()).not.toContain('half-written');
  });

  it('when it is told to end, goes on for a while and is killed', async () => {
    const script = `
      process.on('SIGTERM', () => fs.writeFileSync('frame.4.dat', 'four'));
      fs.writeFileSync('frame.3.dat', 'three'); console.log('up'); setInterval(() => 0, 1000);`;
    const run = place.run(['-r', 'frame.*.dat', '--grace', '6s'], node(script));
    await run.says('up');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
    expect(names()).toEqual(['frame.3.dat.0', 'frame.4.dat.0']);
  });

  it('when the launcher alone is killed, and the task ends with an error', async () => {
    const script = `
      fs.writeFileSync('a.dat', 'one');
      const timer = setInterval(() => {
        if (!fs.existsSync('go')) return;
        clearInterval(timer);
        fs.writeFileSync('b.dat', 'two');
        setTimeout(() => process.exit(1), 1000);
      }, 20);`;
    const run = place.run(['-r', '*.dat'], node(script));
    await until(() => place.keys().includes('a.dat.0'), 'the first result');
    const sidecar = sidecarOf(run.pid) ?? 0;
    process.kill(run.pid, 'SIGKILL');
    fs.writeFileSync(place.at('go'), '');
    await until(() => !isAlive(sidecar), 'the end of the sidecar');
    expect(place.records().at(-1)?.record.end?.reason).toBe('launcher lost');
    expect(names()).toEqual(['a.dat.0', 'b.dat.0']);
  });

  it('also in the last moment before its end, when the launcher alone is killed and it ends well', async () => {
    const run = place.run(
      ['-r', '*.dat'],
      bash(`echo one > a.dat; ${wait}; sleep 0.2; echo two > b.dat; exit 0`),
    );
    await until(() => place.keys().includes('a.dat.0'), 'the first result');
    const sidecar = sidecarOf(run.pid) ?? 0;
    process.kill(run.pid, 'SIGKILL');
    fs.writeFileSync(place.at('go'), '');
    await until(() => !isAlive(sidecar), 'the end of the sidecar');
    expect(names()).toEqual(['a.dat.0', 'b.dat.0']);
  });
});

describe('the first result that a death closed below a shell', () => {
  it('has no good name when the machine is gone before the shell ends', async () => {
    const run = place.run(
      ['-r', '*.dat', '-k', 'after.chk'],
      bash(`${torn('r.dat')}; echo x > after.chk; ${wait}`),
    );
    await until(() => generations().length > 0, 'what was closed after it');
    killTree(run.pid);
    await run.status;
    expect(names()).not.toContain('r.dat.0');
  });

  it.each([
    [0, ['r.dat.0']],
    [9, ['r.dat.0.partial-1']],
  ])('has its name by what the shell ends with: %i', async (status, expected) => {
    const run = place.run(['-r', '*.dat'], bash(`${torn('r.dat')}; exit ${status}`));
    expect(await run.status, run.stderr()).toBe(status);
    expect(names()).toEqual(expected);
  });

  it('has no good name when it was closed while it was set aside to be deleted, and put back', async () => {
    // As if it had opened the file just before it was set aside. It rewrites what was deleted before it came.
    const script = `
      for (;;) {
        if (!fs.existsSync('.capture/reclaim')) continue;
        const [name] = fs.readdirSync('.capture/reclaim');
        if (name === undefined && !fs.existsSync('r.dat')) fs.writeFileSync('r.dat', 'whole');
        try { fs.writeSync(fs.openSync('.capture/reclaim/' + name, 'r+'), 'torn'); } catch { continue; }
        process.kill(process.pid, 'SIGKILL');
      }`;
    const run = place.run(
      ['-r', 'r.dat', '--reclaim', 'now'],
      ['sh', '-c', '"$@"; sleep 0.3; exit 9', 'sh', ...node(script)],
    );
    expect(await run.status, run.stderr()).toBe(9);
    expect(place.text('r.dat.0')).toBe('whole');
    // Unless it came at the very moment of the deletion.
    for (const key of names().filter((one) => one.includes('partial'))) expect(place.text(key)).toBe('torne');
  });
});

describe('a set that a death closed below a shell', () => {
  const options = ['-k', 'a.chk', '-k', 'b.chk', '--task-name', 't'];
  const whole =
    'echo 1 > a.chk; echo 1 > b.chk; until compgen -G "../store/.capture/t/0/*.checkpoint.json" >/dev/null; do :; done';

  async function resumed(): Promise<string> {
    place.freshWork();
    const run = place.run(options, ['cat', 'a.chk', 'b.chk']);
    expect(await run.status, run.stderr()).toBe(0);
    return `${run.stdout()}${run.stderr()}`;
  }

  it('is unproven at once, and the machine gone, the next attempt takes the one before and says so', async () => {
    const run = place.run(options, bash(`${whole}; echo 2 > a.chk; ${torn('b.chk')}; ${wait}`));
    await until(() => generations().length === 2, 'the torn set');
    expect(generations()).toEqual(['2 unproven', '1']);
    killTree(run.pid);
    await run.status;
    const said = await resumed();
    expect(said).toContain('1\n1\n');
    expect(said).toContain('a dying process may have closed a file of checkpoint 1-2');
  });

  it('is proven when the task closes it again', async () => {
    const run = place.run(
      options,
      bash(
        `${whole}; echo 2 > a.chk; ${torn('b.chk')}; ${wait}; sleep 1.2; echo 3 > a.chk; echo 3 > b.chk; until [ -e end ]; do :; done`,
      ),
    );
    await until(() => generations()[0] === '2 unproven', 'the torn set');
    fs.writeFileSync(place.at('go'), '');
    await until(() => generations()[0]?.startsWith('3') ?? false, 'the next set');
    await until(() => generations().every((name) => !name.includes('unproven')), 'the proof');
    killTree(run.pid);
    await run.status;
    expect(await resumed()).toContain('3\n3\n');
  });

  it('is proven by the next set also when a child ends before each close, however soon they come', async () => {
    const script = 'i=0; until [ -e end ]; do i=$((i+1)); sleep 0.2; echo $i > a.chk; done';
    const run = place.run(['-k', 'a.chk', '--task-name', 't'], bash(script));
    const number = (name: string | undefined): number => Number.parseInt(name ?? '0', 10);
    await until(() => number(generations()[0]) >= 6, 'six sets');
    const [newest, ...older] = generations();
    expect(newest).toContain('unproven');
    expect(older.filter((name) => name.includes('unproven'))).toEqual([]);
    killTree(run.pid);
    await run.status;
  });

  it('is held back by no doubt, of names that are new each time and a child that ends before each close', async () => {
    const script = 'i=0; until [ -e end ]; do i=$((i+1)); sleep 0.2; echo $i > m.$i.chk; done';
    const settle = ['--checkpoint-settle', '100ms'];
    const run = place.run(['-k', 'm.*.chk', '--task-name', 't', ...settle], bash(script));
    await until(() => generations().length >= 6, 'six sets');
    const [newest] = place.records().at(-1)?.record.generations ?? [];
    expect(newest).toMatchObject({ unproven: true });
    expect(newest?.instant).toBeUndefined();
    expect(newest?.members.length).toBeGreaterThanOrEqual(6);
    killTree(run.pid);
    await run.status;
  });

  it.each([
    ['asks for another attempt', 'exit 85', 75],
    ['fails', 'exit 1', 1],
    ['is told to end', 'kill -TERM $$; exit 143', 143],
  ])('and that the task removes, stays unproven when the task then %s', async (_, end, status) => {
    const run = place.run(
      [...options, '--again-status', '85'],
      bash(`${whole}; echo 2 > a.chk; ${torn('b.chk')}; ${wait}; rm a.chk b.chk; ${end}`),
    );
    await until(() => generations().length === 2, 'the torn set');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(status);
    expect(generations()).toEqual(['2 unproven', '1']);
    const said = await resumed();
    expect(said).toContain('1\n1\n');
    expect(said).toContain('a dying process may have closed a file of checkpoint 1-2');
  });

  it('is marked before anything else is done when the shell ends with 137', async () => {
    const run = place.run(options, bash(`${whole}; echo 2 > a.chk; ${torn('b.chk')}; exit 137`));
    expect(await run.status, run.stderr()).toBe(137);
    expect(generations()).toEqual(['2 suspect', '1']);
    // The record that closes the attempt is not the first to say so. That of the set itself may be, where it was
    // committed only when the shell had ended.
    const marked = place.records().find(({ record }) => record.generations[0]?.suspect === true);
    expect(marked?.record.kind).not.toBe('failed');
    expect(await resumed()).toContain('1\n1\n');
  });
});
