// What an index sees of what others have stored under the same prefix: other indices, other runs, an earlier
// submission of itself.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { killTree, openPlace, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const sh = (script: string): string[] => ['sh', '-c', script];
const LIST = sh('find . -path ./.capture -prune -o -type f -print | sort');
const given = (text: string): readonly string[] => text.split(' ');
const warnings = (text: string): readonly string[] =>
  text.split('\n').filter((line) => line.includes('warning:'));

describe('inputs by a glob or a directory leave out', () => {
  it.each([
    ['a directory', '-i data/ -r data/', 'data/out.csv', './data/in.1\n./data/part.csv\n'],
    ['every name', '-i ** -r data/out.csv', 'data/out.csv', './data/in.1\n./data/part.csv\n'],
  ])('what other indices have stored: %s', async (_, options, result, found) => {
    fs.mkdirSync(`${place.store}/data`, { recursive: true });
    // Numbered as if they were of an index, and the user's own all the same.
    fs.writeFileSync(`${place.store}/data/in.1`, 'one');
    fs.writeFileSync(`${place.store}/data/part.csv`, 'two');
    const make = sh(`mkdir -p data; seq 3000 > ${result}; echo k > k.chk`);
    for (const index of ['1', '7']) {
      const run = place.run([...given(options), '-k', 'k.chk', '--index', index], make);
      expect(await run.status, run.stderr()).toBe(0);
      place.freshWork();
    }
    const other = place.run([...given(options), '--index', '2'], LIST);
    expect(await other.status, other.stderr()).toBe(0);
    expect(other.stdout()).toBe(found);
  });

  it('checkpoints, partials, older objects and segments, of the index itself too', async () => {
    const options = given('-k k.chk --companions log -r r.dat --index 1 --task-name t');
    const first = place.run(options, sh('echo 1 > r.dat; echo 1 > k.chk; echo 1 > log; sleep 2.3'));
    expect(await first.status, first.stderr()).toBe(0);
    place.freshWork();
    const second = place.run(options, sh('echo 2 > r.dat; exit 1'));
    expect(await second.status).toBe(1);
    expect(place.keys().length).toBeGreaterThanOrEqual(4);
    place.freshWork();
    // Of the task itself its result is an input, by the path that it was stored from.
    const all = place.run(given('-i ** --index 1 --task-name u'), LIST);
    expect(await all.status, all.stderr()).toBe(0);
    expect(all.stdout()).toBe('./r.dat\n');
  });
});

describe('a run', () => {
  const append = given('-r log.txt -i log.txt');
  const task = sh('cat log.txt 2>/dev/null; echo "$0" >> log.txt');

  it('is not given what another run has stored, and says what it found', async () => {
    expect(await place.run([...append, '--run', 'A'], [...task, 'first']).status).toBe(0);
    place.freshWork();
    const other = place.run([...append, '--run', 'B'], [...task, 'second']);
    expect(await other.status, other.stderr()).toBe(0);
    expect(other.stdout()).toBe('');
    expect(other.stderr()).toContain('not used: 1 result of this index from run A');
    expect(place.text('log.txt.0')).toBe('second\n');
    expect(place.text('log.txt.0.~1~')).toBe('first\n');
  });

  it.each([
    ['restore', []],
    ['run', ['--dry-run']],
  ])('says with capture %s what other runs have here', async (command, more) => {
    const both = ['-r', 'a.dat', '-k', 'a.chk', '--task-name', 't'];
    expect(await place.run([...both, '--run', 'A'], sh('echo 1 > a.dat; echo 1 > a.chk')).status).toBe(0);
    place.freshWork();
    const task = command === 'run' ? ['--', 'true'] : [];
    const other = place.capture([command, ...more, '--to', place.store, ...both, '--run', 'B', ...task]);
    expect(await other.status, other.stderr()).toBe(0);
    expect(other.stderr() + other.stdout()).toContain(
      'not used: 1 result and 1 checkpoint of this index from run A',
    );
    expect(fs.existsSync(place.at('a.chk'))).toBe(false);
  });

  it('goes on with its own where another run has stored the same name meanwhile', async () => {
    expect(await place.run([...append, '--run', 'A'], [...task, 'first']).status).toBe(0);
    place.freshWork();
    expect(await place.run([...append, '--run', 'B'], [...task, 'other']).status).toBe(0);
    place.freshWork();
    const back = place.run([...append, '--run', 'A'], [...task, 'third']);
    expect(await back.status, back.stderr()).toBe(0);
    expect(back.stdout()).toBe('first\n');
    expect(place.text('log.txt.0')).toBe('first\nthird\n');
  });

  it('takes what was staged for its own input where a killed run has stored the same name', async () => {
    const killed = place.run(['-r', 'a.dat', '--run', 'A'], sh('echo old > a.dat; sleep 60'));
    await until(() => place.keys().includes('a.dat.0'), 'the result of run A is stored');
    killTree(killed.pid);
    await killed.status;
    place.freshWork();
    fs.writeFileSync(place.at('a.dat'), 'staged');
    const other = place.run(['-r', 'a.dat', '-i', 'a.dat', '--run', 'B'], sh('cat a.dat'));
    expect(await other.status, other.stderr()).toBe(0);
    expect(other.stdout()).toBe('staged');
    expect(place.keys()).toEqual(['a.dat.0']);
    expect(place.text('a.dat.0')).toBe('old\n');
  });

  it('does not begin without an input that only another run has stored, and says whose it is', async () => {
    expect(await place.run(['-r', 'a.dat', '--run', 'A'], sh('echo 1 > a.dat')).status).toBe(0);
    place.freshWork();
    const other = place.run(['-i', 'a.dat', '--run', 'B'], sh('echo ran'));
    expect(await other.status).toBe(66);
    expect(other.stdout()).toBe('');
    expect(other.stderr()).toContain('run A has stored a.dat');
    // The next step of a pipeline, in the same run or from another prefix, does.
    const next = place.run(['-i', 'a.dat', '--run', 'A', '--task-name', 'next'], sh('cat a.dat'));
    expect(await next.status).toBe(0);
    expect(next.stdout()).toBe('1\n');
    place.freshWork();
    const elsewhere = ['--to', `${place.dir}/b`, '--from', place.store, '--run', 'B', '-i', 'a.dat'];
    const from = place.capture([...elsewhere, '--', ...sh('cat a.dat')]);
    expect(await from.status, from.stderr()).toBe(0);
    expect(from.stdout()).toBe('1\n');
  });
});

describe('a second submission to the same prefix', () => {
  it.each([
    ['with --run', ['--run', 'A'], ['--run', 'B'], 'from run A'],
    ['without', [], [], 'was done in attempt 1'],
  ])('%s is one warning in all, and loses nothing', async (_, first, second, said) => {
    const make = (text: string): string[] => sh(`for i in 1 2 3 4 5; do echo ${text} > f.$i; done`);
    expect(await place.run(['-r', 'f.*', ...first], make('old')).status).toBe(0);
    place.freshWork();
    const again = place.run(['-r', 'f.*', ...second], make('new'));
    expect(await again.status, again.stderr()).toBe(0);
    expect(warnings(again.stderr())).toHaveLength(1);
    expect(warnings(again.stderr())[0]).toContain(said);
    expect(again.stderr()).toContain('5 older results kept as .~n~');
    expect(place.text('f.3.0')).toBe('new\n');
    expect(place.text('f.3.0.~1~')).toBe('old\n');
  });
});
