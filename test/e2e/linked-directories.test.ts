// capture follows no link to a directory. A run that leaves a declared file behind one says so, and is no success.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Generation } from '../../src/model/format/records.ts';
import { BIN, openPlace, type Place, type Run, until } from './support.ts';

let place: Place;
beforeEach(() => {
  // In memory, so that --workdir auto takes it.
  place = openPlace({ below: '/dev/shm' });
});
afterEach(() => place.close());

const sh = (script: string): readonly string[] => ['sh', '-c', script];
const of = (pattern: string): readonly string[] => ['-r', pattern, '--index', '0', '--task-name', 't'];
const behind = (path: string, link: string): string =>
  `NOT stored: ${path} (${link} is a symbolic link to a directory)`;
async function ends(run: Run, status: number): Promise<string> {
  expect(await run.status, run.stderr()).toBe(status);
  return run.stderr();
}

describe('a result behind a link to a directory is named, and the run exits 74:', () => {
  it.each([
    [
      'where the star is',
      'run*/b.dat',
      'mkdir real; ln -s real run1; echo b >run1/b.dat',
      'run1/b.dat',
      'run1',
    ],
    [
      'though another one is stored',
      'out/*.dat',
      'mkdir out; echo a >out/a.dat; capture flush; mv out v1; ln -s v1 out; rm v1/a.dat; echo b >out/b.dat',
      'out/b.dat',
      'out',
    ],
    [
      'in a declared directory',
      'out/',
      'mkdir out real; ln -s ../real out/sub; echo b >out/sub/b.dat',
      'out/sub/b.dat',
      'out/sub',
    ],
    [
      'in place of a declared directory',
      'out',
      'mkdir real; ln -s real out; echo b >out/b.dat',
      'out/b.dat',
      'out',
    ],
  ])('%s', async (_, pattern, script, path, link) => {
    const env = { PATH: `${place.dir}:${process.env['PATH'] ?? ''}` };
    fs.symlinkSync(new URL('../../bin/capture', import.meta.url).pathname, `${place.dir}/capture`);
    const said = await ends(place.run(of(pattern), sh(script), env), 74);
    expect(said).toContain(behind(path, link));
    expect(said).toContain('try: declare the directory by its own name');
    expect(place.keys()).not.toContain(`${path}.0`);
    expect(place.records().at(-1)?.record).toMatchObject({ kind: 'failed', left: [{ path }] });
  });

  it('and an older state of it in the store is not taken for it', async () => {
    await ends(place.run(of('out/x.dat'), sh('mkdir out; echo v1 >out/x.dat; exit 3')), 3);
    place.freshWork();
    const second = place.run(of('out/x.dat'), sh('mkdir v2; ln -s v2 out; echo v2 >out/x.dat'));
    expect(await ends(second, 74)).toContain(behind('out/x.dat', 'out'));
    const verify = place.capture(['verify', place.store]);
    expect((await ends(verify, 1)) + verify.stdout()).toContain('out/x.dat is not stored');
  });
});

it('capture flush says so, too, and does not wait for its timeout', async () => {
  const script = `mkdir real; ln -s real run1; echo b >run1/b.dat; "$BIN" flush --timeout 1h; echo $? >flushed
    rm run1 real/b.dat; "$BIN" flush; echo $? >>flushed`;
  const said = await ends(place.run(of('run*/b.dat'), sh(script), { BIN }), 0);
  expect(said).toContain('run1/b.dat (run1 is a symbolic link to a directory)');
  expect(said).toContain('try: declare the directory by its own name');
  expect(fs.readFileSync(place.at('flushed'), 'utf8')).toBe('74\n0\n');
});

it('a link beside the directory that it leads to loses nothing', async () => {
  const script =
    'mkdir step-7 data; echo 7 >step-7/x.dat; ln -s step-7 latest; ln -s . self; ln -s nowhere gone';
  const said = await ends(place.run(of('**/*.dat'), sh(script)), 0);
  expect(said).not.toContain('symbolic link');
  expect(place.keys()).toEqual(['step-7/x.dat.0']);
});

it('a link to inputs outside, of whatever number, loses nothing', async () => {
  fs.mkdirSync(`${place.dir}/in`);
  for (let n = 0; n <= 10_000; n += 1) fs.writeFileSync(`${place.dir}/in/${n}.in`, '');
  fs.symlinkSync(`${place.dir}/in`, place.at('data'));
  const run = place.run([...of('r.dat'), '-i', 'data/0.in'], sh('echo 1 >r.dat'));
  expect(await ends(run, 0)).not.toContain('symbolic link');
});

it('a work directory that capture made stays, with what is behind a link', async () => {
  const script = 'pwd; mkdir real; ln -s real step2; echo b >step2/b.dat';
  const run = place.run(['--workdir', 'auto', ...of('step*/*.dat')], sh(script), { TMPDIR: place.dir });
  await ends(run, 74);
  const kept = `${run.stdout().trim()}.failed`;
  expect(run.stderr()).toContain(`the work directory stays: ${kept}`);
  expect(fs.readFileSync(`${kept}/real/b.dat`, 'utf8')).toBe('b\n');
});

it('a stored link to a file that is not declared is named, and one to a declared file is not', async () => {
  const script = 'echo 1 >a.1; ln -s a.1 a.dat; echo 2 >b.1.dat; ln -s b.1.dat b.dat';
  const said = await ends(place.run(of('*.dat'), sh(script)), 0);
  expect(said).toContain('only the link is stored, and not what it leads to: a.dat (to a.1)\n');
});

describe('a checkpoint set that lacks a file behind a link', () => {
  const sets = (): readonly Generation[] => place.records().at(-1)?.record.generations ?? [];
  const options = ['-k', 'ck*/m', '-k', 'last', '--checkpoint-last', 'last', '--task-name', 't'];

  it.each([
    ['made', 'ln -s real ck2'],
    ['renamed into place', 'ln -s real tmp; mv -T tmp ck2'],
  ])('is never called good: %s', async (_, link) => {
    const script = `mkdir ck1 real; echo 1 >ck1/m; ${link}; echo 1 >ck2/m; echo 1 >last; read -r _ <fifo; exit 3`;
    fs.writeFileSync(place.at('task.sh'), `mkfifo fifo; ${script}`);
    const run = place.run(options, ['sh', 'task.sh']);
    await until(() => sets().length > 0, 'a set while the task runs');
    expect(sets()).toMatchObject([{ incomplete: true }]);
    expect(sets()[0]).not.toHaveProperty('proof');
    await run.says('checkpoint sets lack ck2/m (ck2 is a symbolic link to a directory)');
    fs.writeFileSync(place.at('fifo'), '\n');
    expect(await ends(run, 3)).toContain(behind('ck2/m', 'ck2'));
    expect(sets().every(({ incomplete }) => incomplete === true)).toBe(true);
  });

  it('is good, if the link leads to a directory of the set', async () => {
    const script = 'mkdir ck1; echo 1 >ck1/m; ln -s ck1 ck-latest; echo 1 >last; exit 3';
    await ends(place.run([...options, '--trust-exit', '3'], sh(script)), 3);
    expect(sets()[0]).not.toHaveProperty('incomplete');
  });
});
