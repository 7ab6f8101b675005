// Killed at any moment, resumed in a fresh work directory: what a scheduler does to a job array.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { killTree, openPlace, program, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace({ below: '/dev/shm' });
});
afterEach(() => place.close());

const checkpoints = (): number => place.records().filter(({ name }) => name.endsWith('.checkpoint')).length;

describe('two checkpoint files that are rewritten in turn', () => {
  it('are never restored from different moments, however the run is killed', async () => {
    const task = [process.execPath, program('rewrite-in-turn.mjs')];
    const options = ['-k', 'a.chk', '-k', 'b.chk', '--checkpoint-settle', '1h'];
    let reached = 0;
    for (const kill of ['tree', 'task', 'tree', 'term', 'tree', 'task'] as const) {
      const before = checkpoints();
      const run = place.run(options, task);
      await run.says(/from \d+ \d+/);
      const [, a, b] = /from (\d+) (\d+)/.exec(run.stdout()) ?? [];
      expect(a).toBe(b);
      expect(Number(a)).toBeGreaterThanOrEqual(reached);
      reached = Number(a);
      await until(() => checkpoints() > before, 'a checkpoint of this attempt');
      if (kill === 'tree') killTree(run.pid);
      else if (kill === 'term') process.kill(run.pid, 'SIGTERM');
      else killTask(run.pid);
      await run.status;
      place.freshWork();
    }
    expect(reached).toBeGreaterThan(0);
  });
});

function killTask(launcher: number): void {
  for (const name of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const line = fs.readFileSync(`/proc/${name}/cmdline`, 'utf8');
      const parent = fs.readFileSync(`/proc/${name}/stat`, 'utf8').split(') ')[1]?.split(' ')[1];
      if (line.includes('rewrite-in-turn') && Number(parent) === launcher)
        process.kill(Number(name), 'SIGKILL');
    } catch {
      // gone meanwhile
    }
  }
}

describe('a log that is opened, appended and closed again and again', () => {
  it('loses no line of either attempt when the first is killed', async () => {
    const task = (name: string): string[] => [process.execPath, program('append-lines.mjs'), name, '50'];
    const first = place.run(['-r', 'log.txt'], task('one'));
    await first.says('one 20');
    process.kill(first.pid, 'SIGTERM');
    expect(await first.status).toBe(75);
    place.freshWork();
    const second = place.run(['-r', 'log.txt'], task('two'));
    await second.says('two 20');
    process.kill(second.pid, 'SIGTERM');
    expect(await second.status).toBe(75);
    const stored = place
      .keys()
      .map((key) => place.text(key))
      .join('');
    for (const line of [...first.stdout().split('\n'), ...second.stdout().split('\n')])
      expect(stored).toContain(line);
    expect(first.stdout().split('\n').length).toBeGreaterThan(20);
  });
});

describe('two attempts of one index at once', () => {
  it('leave one that goes on and one that exits 76', async () => {
    const forever = [
      'sh',
      '-c',
      'i=0; while :; do i=$((i+1)); echo $i > k.chk; echo $i > r.dat; sleep 0.3; done',
    ];
    const first = place.run(['-k', 'k.chk', '-r', 'r.dat'], forever);
    await until(() => checkpoints() > 0, 'the first attempt’s checkpoint');
    place.freshWork();
    const second = place.run(['-k', 'k.chk', '-r', 'r.dat'], forever);
    expect(await first.status).toBe(76);
    expect(first.stderr()).toContain('attempt 2 has taken this index over');
    process.kill(second.pid, 'SIGTERM');
    expect(await second.status).toBe(75);
    expect(place.records().at(-1)?.record.attempt).toBe(2);
  });
});

describe('a done index', () => {
  it('is not run again with --skip-done', async () => {
    expect(await place.run(['-r', 'r.dat'], ['sh', '-c', 'echo x > r.dat']).status).toBe(0);
    place.freshWork();
    const again = place.run(['-r', 'r.dat', '--skip-done'], ['sh', '-c', 'echo ran']);
    expect(await again.status).toBe(0);
    expect(again.stdout()).toBe('');
    expect(again.stderr()).toContain('done already');
  });

  it('stays done when its checkpoints were cleaned away, also after an attempt that could not restore them', async () => {
    const options = ['-r', 'r.dat', '-k', 'k.chk'];
    expect(await place.run(options, ['sh', '-c', 'echo x > r.dat; echo y > k.chk']).status).toBe(0);
    for (const key of place.keys().filter((name) => name.startsWith('k.chk')))
      fs.rmSync(`${place.store}/${key}`);
    place.freshWork();
    const task = ['sh', '-c', 'echo ran'];
    expect(await place.run(options, task).status).toBe(69);
    for (const how of [['--skip-done'], ['--skip-done', '--dry-run']]) {
      const again = place.run([...options, ...how], task);
      expect(await again.status, again.stderr()).toBe(0);
      expect(again.stdout() + again.stderr()).toContain('done already in attempt 1');
    }
  });

  it('is done no longer when an attempt that died has replaced a result of it', async () => {
    expect(await place.run(['-r', 'r.dat'], ['sh', '-c', 'echo x > r.dat']).status).toBe(0);
    const second = place.run(
      ['-r', 'r.dat'],
      ['sh', '-c', 'echo y > r.dat; until ls "$S"/r.dat.0.~1~; do sleep 0.02; done; echo replaced; sleep 60'],
      { S: place.store },
    );
    await second.says('replaced');
    await until(() => place.text('r.dat.0') === 'y\n', 'the push of the second attempt');
    killTree(second.pid);
    await second.status;
    const third = place.run(['-r', 'r.dat', '--skip-done'], ['sh', '-c', 'echo ran']);
    expect(await third.status, third.stderr()).toBe(0);
    expect(third.stdout()).toBe('ran\n');
  });

  it('starts afresh under another run id', async () => {
    const task = ['sh', '-c', 'cat k.chk 2>/dev/null; echo next >> k.chk'];
    expect(await place.run(['-k', 'k.chk', '--run', 'a'], task).status).toBe(0);
    place.freshWork();
    const other = place.run(['-k', 'k.chk', '--run', 'b'], task);
    expect(await other.status).toBe(0);
    expect(other.stdout()).toBe('');
  });
});

describe('a stored checkpoint that is damaged', () => {
  const twoGenerations = async (): Promise<void> => {
    const task = [
      'sh',
      '-c',
      'for i in 1 2; do echo $i > k.chk; while [ ! -e "$S/k.chk.sh.0.1-$i" ]; do :; done; done',
    ];
    expect(await place.run(['-k', 'k.chk'], task, { S: place.store }).status).toBe(0);
    place.freshWork();
  };

  it.each<[string, (key: string) => void]>([
    ['is missing', (file) => fs.rmSync(file)],
    ['was changed', (file) => fs.writeFileSync(file, '9\n')],
    ['was cut', (file) => fs.truncateSync(file, 1)],
  ])('because a file %s makes the run resume from the one before', async (_, damage) => {
    await twoGenerations();
    damage(`${place.store}/k.chk.sh.0.1-2`);
    const run = place.run(['-k', 'k.chk', '--task-name', 'sh'], ['cat', 'k.chk']);
    expect(await run.status).toBe(0);
    expect(run.stdout()).toBe('1\n');
    expect(run.stderr()).toMatch(/checkpoint 1-2 cannot be restored \(.*\): trying 1-1$/m);
  });

  it('because its record cannot be read makes the run use the record before', async () => {
    await twoGenerations();
    const dir = `${place.store}/.capture/sh/0`;
    for (const name of fs.readdirSync(dir).filter((n) => n.includes('.done')))
      fs.writeFileSync(`${dir}/${name}`, '{');
    const run = place.run(['-k', 'k.chk', '--task-name', 'sh'], ['cat', 'k.chk']);
    expect(await run.status).toBe(0);
    expect(run.stdout()).toBe('2\n');
    expect(run.stderr()).toContain('cannot be used');
  });

  it('in all its generations ends the run with 69, and --no-restore starts from nothing', async () => {
    await twoGenerations();
    for (const n of [1, 2]) fs.rmSync(`${place.store}/k.chk.sh.0.1-${n}`);
    const run = place.run(['-k', 'k.chk', '--task-name', 'sh'], ['sh', '-c', 'echo started']);
    expect(await run.status).toBe(69);
    expect(run.stderr()).toMatch(/checkpoint 1-1 cannot be restored \(.*\): there is no other$/m);
    expect(run.stdout()).toBe('');
    const anew = place.run(
      ['-k', 'k.chk', '--task-name', 'sh', '--no-restore'],
      ['sh', '-c', 'echo started'],
    );
    expect(await anew.status).toBe(0);
    expect(anew.stdout()).toBe('started\n');
  });
});
