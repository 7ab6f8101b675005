// What happens to a file: each row of the table in docs/semantics.md, through the whole program.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BIN, openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const sh = (script: string): string[] => ['sh', '-c', script];

describe('a result', () => {
  it('is stored and its local copy reclaimed at the end', async () => {
    const run = place.run(['-r', 'r.dat'], sh('echo data > r.dat'));
    expect(await run.status).toBe(0);
    expect(place.text('r.dat.0')).toBe('data\n');
    expect(fs.existsSync(place.at('r.dat'))).toBe(false);
    expect(place.records().at(-1)?.record.kind).toBe('done');
  });

  it('is compressed when that gains something, and opens as a plain zstd frame', async () => {
    const run = place.run(['-r', 'out/**', '--index', '7'], sh('mkdir out; seq 10000 > out/a.txt'));
    expect(await run.status).toBe(0);
    expect(place.keys()).toEqual(['out/a.txt.7.zst']);
    expect(place.text('out/a.txt.7.zst').split('\n')).toHaveLength(10_001);
  });

  it('stays in the work directory with --keep', async () => {
    expect(await place.run(['-r', 'r.dat', '--keep'], sh('echo data > r.dat')).status).toBe(0);
    expect(fs.readFileSync(place.at('r.dat'), 'utf8')).toBe('data\n');
  });

  it('stays in the work directory when it is an input too', async () => {
    fs.writeFileSync(place.at('r.dat'), 'old');
    expect(await place.run(['-r', 'r.dat', '-i', 'r.dat'], sh('echo data > r.dat')).status).toBe(0);
    expect(place.text('r.dat.0')).toBe('data\n');
    expect(fs.existsSync(place.at('r.dat'))).toBe(true);
  });

  it('that equals its baseline is not pushed, and goes', async () => {
    expect(await place.run(['-r', 'r.dat'], sh('echo data > r.dat')).status).toBe(0);
    const before = fs.statSync(`${place.store}/r.dat.0`).ino;
    place.freshWork();
    expect(await place.run(['-r', 'r.dat'], sh('echo data > r.dat')).status).toBe(0);
    expect(fs.statSync(`${place.store}/r.dat.0`).ino).toBe(before);
    expect(fs.existsSync(place.at('r.dat'))).toBe(false);
    expect(place.keys()).toEqual(['r.dat.0']);
  });

  it('that is an input is pushed only if the task closes it, whatever it writes', async () => {
    for (const name of ['r.dat', 's.dat']) fs.writeFileSync(place.at(name), 'staged');
    expect(await place.run(['-r', '*.dat', '-i', '*.dat'], sh('printf staged > r.dat')).status).toBe(0);
    expect(place.keys()).toEqual(['r.dat.0']);
    expect(fs.readFileSync(place.at('r.dat'), 'utf8')).toBe('staged');
  });

  it('that has other permissions than the same bytes that are stored is pushed, and so is a link to that text', async () => {
    const settled = 'until [ -e "../store/r.dat.0" ] && [ -e ../store/l.dat.0 ]; do :; done';
    const script = `echo 1 > r.dat; printf r.dat > l.dat; ${settled}; chmod 700 r.dat; echo 1 >> r.dat; echo 1 > r.dat; ln -sf r.dat l.dat`;
    expect(await place.run(['-r', '*.dat'], sh(script)).status).toBe(0);
    const last = place.records().at(-1)?.record.results;
    const seen = last?.map(({ path, kind, mode }) => [path, kind === 'file' ? mode : kind]);
    expect(new Map(seen as [string, unknown][])).toEqual(
      new Map<string, unknown>([
        ['l.dat', 'link'],
        ['r.dat', 0o700],
      ]),
    );
  });

  it('of size 0 is stored as any other', async () => {
    const run = place.run(['-r', 'r.dat'], sh(': > r.dat'));
    expect(await run.status).toBe(0);
    expect(place.keys()).toEqual(['r.dat.0']);
    expect(place.text('r.dat.0')).toBe('');
    expect(fs.existsSync(place.at('r.dat'))).toBe(false);
  });

  it('of size 0 that is an input, too, stays here and comes to the next attempt', async () => {
    const stamp = ['-r', 'a.done', '-i', 'a.done'];
    expect(await place.run(stamp, sh(': > a.done')).status).toBe(0);
    expect(fs.existsSync(place.at('a.done'))).toBe(true);
    place.freshWork();
    expect(await place.run(stamp, sh('[ -e a.done ]')).status).toBe(0);
  });

  it('of size 0 never takes the place of what an earlier attempt stored: that is kept beside it', async () => {
    expect(await place.run(['-r', 'r.dat'], sh('echo data > r.dat')).status).toBe(0);
    place.freshWork();
    expect(await place.run(['-r', 'r.dat'], sh(': > r.dat')).status).toBe(0);
    expect(place.text('r.dat.0.~1~')).toBe('data\n');
  });

  it('is deleted as soon as it is durable with --reclaim now, while the task runs', async () => {
    const task = sh('echo data > r.dat; while [ -e r.dat ]; do :; done; echo gone');
    const run = place.run(['-r', 'r.dat', '--reclaim', 'now'], task);
    expect(await run.status).toBe(0);
    expect(run.stdout()).toBe('gone\n');
    expect(place.text('r.dat.0')).toBe('data\n');
  });

  it('that is created again the moment its local copy is gone leaves the older one under .~1~', async () => {
    const task = sh('echo 1 > q; while [ -e q ]; do :; done; echo 2 >> q');
    expect(await place.run(['-r', 'q', '--reclaim', 'now'], task).status).toBe(0);
    expect(place.text('q.0')).toBe('2\n');
    expect(place.text('q.0.~1~')).toBe('1\n');
  });

  it('that a task closed just before it was killed is stored as partial, and stays here', async () => {
    expect(await place.run(['-r', 'r.dat'], sh('echo half > r.dat; kill -9 $$')).status).toBe(137);
    expect(place.keys()).toEqual(['r.dat.0.partial-1']);
    expect(fs.existsSync(place.at('r.dat'))).toBe(true);
  });

  it('that is written five times counts as one file in the last line, with its newest bytes', async () => {
    const run = place.run(
      ['-r', '*.dat', '--index', '1'],
      sh(
        `echo 1234567 > b.dat; for i in 1 2 3; do echo $i$i$i > a.dat; ${BIN} flush; done; echo 12345 > a.dat`,
      ),
    );
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).toContain('stored 2 results (14 B)');
  });

  it('that is declared, or a checkpoint that is declared by name, and never came is a warning, in one line', async () => {
    const options = ['-r', 'a.dat', '-r', 'typo.dat', '-k', 'typo.chk', '-k', '*.old', '-r', '*.none'];
    const run = place.run(options, sh('echo 1 > a.dat'));
    expect(await run.status, run.stderr()).toBe(0);
    const warned = run.stderr().match(/warning: .*/g) ?? [];
    expect(warned).toEqual([
      'warning: no file matched: typo.dat (--results), *.none (--results), typo.chk (--checkpoints)',
    ]);
    expect(run.stderr()).toContain('no file matched *.old ->');
  });

  it('of an earlier attempt has come', async () => {
    const options = ['-r', 'a.dat', '-k', 'a.chk', '-r', 'b.dat', '--again-status', '9'];
    const task = sh(
      'if rm a.chk; then echo 2 > b.dat; else echo 1 > a.dat; echo 1 > a.chk; exit 9; fi 2> /dev/null',
    );
    const first = place.run(options, task);
    expect(await first.status, first.stderr()).toBe(75);
    expect(first.stderr()).not.toContain('warning');
    place.freshWork();
    const second = place.run(options, task);
    expect(await second.status, second.stderr()).toBe(0);
    expect(second.stderr()).not.toContain('warning');
    expect(second.stderr()).not.toContain('no file matched');
  });

  it('that replaces one of an earlier attempt leaves the older one under .~1~', async () => {
    const begun = place.run(['-r', 'r.dat', '--again-status', '9'], sh('echo one > r.dat; exit 9'));
    expect(await begun.status).toBe(75);
    place.freshWork();
    const second = place.run(['-r', 'r.dat'], sh('echo two > r.dat'));
    expect(await second.status).toBe(0);
    expect(place.text('r.dat.0')).toBe('two\n');
    expect(place.text('r.dat.0.~1~')).toBe('one\n');
    expect(second.stderr()).toContain('r.dat of attempt 1 (4 B) kept as r.dat.0.~1~');
    expect(fs.existsSync(place.at('r.dat'))).toBe(true);
  });

  // Each line is an append of its own: the hint names the role that brings the file back, which is then done.
  it.each([
    ['with a checkpoint', ['-k', 'k.chk'], '--companions', ['-k', 'k.chk', '--companions', 'rows']],
    ['without one', [], '--checkpoints', ['-k', 'rows']],
  ])('that the task appends to has another role: %s', async (_, others, role, asHinted) => {
    const script = (end: string): string[] =>
      sh(
        `echo $CAPTURED_ATTEMPT a >> rows; echo $CAPTURED_ATTEMPT b >> rows; echo 1 > k.chk; "${BIN}" flush; ${end}`,
      );
    const twice = async (options: readonly string[]): Promise<string> => {
      const first = place.run([...options, '--again-status', '9'], script('exit 9'));
      expect(await first.status, first.stderr()).toBe(75);
      place.freshWork();
      const second = place.run([...options, '--keep'], script('exit 0'));
      expect(await second.status, second.stderr()).toBe(0);
      return second.stderr();
    };
    expect(await twice(['-r', 'rows', '--task-name', 'a', ...others])).toContain(
      `try: if the task appends to it: ${role} `,
    );
    expect(place.text('rows.0')).toBe('2 a\n2 b\n');
    place.freshWork();
    expect(await twice(['--task-name', 'b', ...asHinted])).not.toContain('appends');
    expect(fs.readFileSync(place.at('rows'), 'utf8')).toBe('1 a\n1 b\n2 a\n2 b\n');
  });

  it('of another task name under the same key is kept, too', async () => {
    expect(await place.run(['-r', 'r.dat', '--task-name', 'a'], sh('echo one > r.dat')).status).toBe(0);
    place.freshWork();
    expect(await place.run(['-r', 'r.dat', '--task-name', 'b'], sh('echo two > r.dat')).status).toBe(0);
    expect(place.text('r.dat.0')).toBe('two\n');
    expect(place.text('r.dat.0.~1~')).toBe('one\n');
  });

  it('in the other form than before replaces that one', async () => {
    expect(await place.run(['-r', 'r.dat', '--compression', 'none'], sh('seq 9999 > r.dat')).status).toBe(0);
    place.freshWork();
    expect(await place.run(['-r', 'r.dat'], sh('seq 8888 > r.dat')).status).toBe(0);
    expect(place.keys()).toEqual(['r.dat.0.zst', 'r.dat.0.~1~']);
  });

  it('that was there before the task is stored only when the task ends with 0', async () => {
    fs.writeFileSync(place.at('r.dat'), 'before');
    expect(await place.run(['-r', 'r.dat'], sh('exit 3')).status).toBe(3);
    expect(place.keys()).toEqual([]);
    expect(await place.run(['-r', 'r.dat'], sh('exit 0')).status).toBe(0);
    expect(place.text('r.dat.0')).toBe('before');
  });

  it('that the task removes before it is stored is withdrawn, no error', async () => {
    const run = place.run(['-r', 'r.dat', '-r', 'other'], sh('echo x > r.dat; rm r.dat; echo y > other'));
    expect(await run.status).toBe(0);
    expect(place.records().at(-1)?.record.left).toEqual([]);
  });

  it('that is a symbolic link inside the work directory is stored as a link', async () => {
    const run = place.run(['-r', 'latest', '-r', 'a.dat'], sh('echo x > a.dat; ln -s a.dat latest'));
    expect(await run.status).toBe(0);
    expect(place.text('latest.0')).toBe('a.dat');
    expect(
      place
        .records()
        .at(-1)
        ?.record.results.find(({ path }) => path === 'latest')?.kind,
    ).toBe('link');
  });

  it('that is a link out of the work directory is refused, and the run is no success', async () => {
    const run = place.run(['-r', 'passwd'], sh('ln -s /etc/passwd passwd'));
    expect(await run.status).toBe(74);
    expect(place.keys()).toEqual([]);
    expect(run.stderr()).toContain('leads out of the work directory');
  });
});

describe('a checkpoint', () => {
  it('is stored as a generation and comes back in a fresh work directory', async () => {
    expect(await place.run(['-k', 'k.chk'], sh('echo step1 > k.chk')).status).toBe(0);
    expect(place.keys()).toEqual(['k.chk.sh.0.1-1']);
    place.freshWork();
    const second = place.run(
      ['-k', 'k.chk'],
      sh('cat k.chk; echo "at $CAPTURED_ATTEMPT from $CAPTURED_RESTORED"'),
    );
    expect(await second.status).toBe(0);
    expect(second.stdout()).toBe('step1\nat 2 from 1-1\n');
  });

  it('that did not change uploads nothing on the next attempt', async () => {
    expect(await place.run(['-k', 'k.chk', '-r', 'r'], sh('echo step1 > k.chk; echo r > r')).status).toBe(0);
    const before = place.keys();
    place.freshWork();
    expect(await place.run(['-k', 'k.chk', '-r', 'r'], sh('true')).status).toBe(0);
    expect(place.keys()).toEqual(before);
  });

  it('is kept in as many generations as asked for, and no more', async () => {
    const task = sh('for i in 1 2 3 4 5; do echo $i > k.chk; "$CAPTURE" flush; done');
    const run = place.run(['-k', 'k.chk', '--generations', '2'], task, { CAPTURE: BIN });
    expect(await run.status).toBe(0);
    expect(place.keys().map((key) => place.text(key))).toEqual(['4\n', '5\n']);
  });
});

describe('an input', () => {
  it('is never pushed and kept', async () => {
    fs.writeFileSync(place.at('in.dat'), 'in');
    expect(await place.run(['-i', 'in.dat'], sh('echo changed > in.dat')).status).toBe(0);
    expect(place.keys()).toEqual([]);
    expect(fs.existsSync(place.at('in.dat'))).toBe(true);
  });

  it('that is not here comes from the store, the index’s own first', async () => {
    fs.mkdirSync(place.store);
    fs.writeFileSync(`${place.store}/in.dat`, 'plain');
    const run = place.run(['-i', 'in.dat', '--index', '4'], sh('cat in.dat'));
    expect(await run.status).toBe(0);
    expect(run.stdout()).toBe('plain');
    fs.writeFileSync(`${place.store}/in.dat.4`, 'own');
    place.freshWork();
    const second = place.run(['-i', 'in.dat', '--index', '4'], sh('cat in.dat'));
    expect(await second.status).toBe(0);
    expect(second.stdout()).toBe('own');
  });

  it('that was put there by hand has its plain name, and keeps its time', async () => {
    fs.mkdirSync(place.store);
    for (const name of ['mesh.zst', '50%.dat']) {
      fs.writeFileSync(`${place.store}/${name}`, name);
      fs.utimesSync(`${place.store}/${name}`, 1_700_000_000, 1_700_000_000);
    }
    const run = place.run(
      ['-i', 'mesh.zst', '-i', '50%.dat'],
      ['stat', '-c', '%n %Y', 'mesh.zst', '50%.dat'],
    );
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('mesh.zst 1700000000\n50%.dat 1700000000\n');
  });

  it('that is nowhere ends the run with 66 before the task starts', async () => {
    const run = place.run(['-i', 'in.dat'], sh('echo started'));
    expect(await run.status).toBe(66);
    expect(run.stdout()).toBe('');
    expect(run.stderr()).toMatch(/in\.dat[^]*\n {2}try: /);
  });

  it('that is nowhere uses up no attempt, and stops none that is at work', async () => {
    const atWork = place.run(
      ['-r', 'r.dat', '--task-name', 't'],
      sh('until [ -e stop ]; do sleep 0.1; done'),
    );
    await atWork.says('task t, attempt 1');
    const work = place.at('stop');
    place.freshWork();
    const run = place.run(['-i', 'in.dat', '--task-name', 't'], ['true']);
    expect(await run.status).toBe(66);
    fs.writeFileSync(work, '');
    expect(await atWork.status, atWork.stderr()).toBe(0);
    expect(place.records().every(({ record }) => record.attempt === 1)).toBe(true);
  });
});

describe('anything else', () => {
  it('is never read and never touched', async () => {
    const run = place.run(['-r', 'r.dat'], sh('echo x > other; chmod 000 other; echo y > r.dat'));
    expect(await run.status).toBe(0);
    expect(place.keys()).toEqual(['r.dat.0']);
    expect(fs.existsSync(place.at('other'))).toBe(true);
  });
});
