// The exit status and the last record tell the truth: no way to 0 with something unsaved, and what the user says
// about the end of the task counts.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPlace, program, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace({ unprivileged: true });
});
afterEach(() => {
  execFileSync('chmod', ['-R', 'u+rwX', place.dir]);
  place.close();
});

const sh = (script: string): string[] => ['sh', '-c', script];
const last = (): ReturnType<Place['records']>[number]['record'] | undefined => place.records().at(-1)?.record;
const lastLine = (stderr: string): string => stderr.trim().split('\n').at(-1) ?? '';

describe('a task that exits 0 ends with 74, names the file and keeps it', () => {
  it.each<[string, string, string, RegExp]>([
    ['is a link out of the work directory', 'r.dat', 'ln -s /etc/hostname r.dat', /leads out/],
    ['may not be read', 'r.dat', 'echo x > r.dat; chmod 000 r.dat', /permission denied/],
    [
      'stands where nobody may look',
      'shut',
      'mkdir shut; echo x > shut/a; chmod 000 shut',
      /cannot look into it/,
    ],
    [
      'can be listed but not reached',
      'shut',
      'mkdir shut; echo x > shut/a; chmod 444 shut',
      /cannot look into it/,
    ],
  ])('when a result %s', async (_, path, script, why) => {
    const run = place.run(['-r', 'shut/**', '-r', 'r.dat'], sh(script));
    expect(await run.status, run.stderr()).toBe(74);
    expect(last()?.kind).toBe('failed');
    expect(last()?.left).toContainEqual({ path, why: expect.stringMatching(why) });
    expect(lastLine(run.stderr())).toContain(`NOT stored: ${path}`);
    expect(fs.lstatSync(place.at(path), { throwIfNoEntry: false })).toBeDefined();
  });

  it('when a result was closed in a directory that then may not be entered any more', async () => {
    fs.mkdirSync(place.at('shut'));
    // Closed only then: else it might be stored before.
    const run = place.run(['-r', 'shut/a'], sh('exec 3> shut/a; echo x >&3; chmod 000 shut; exec 3>&-'));
    expect(await run.status, run.stderr()).toBe(74);
    expect(last()?.left).toContainEqual({ path: 'shut/a', why: 'permission denied' });
  });

  it('when somebody else still writes it after the grace', async () => {
    const writer = fs.openSync(place.at('r.dat'), 'w');
    try {
      const run = place.run(['-r', 'r.dat', '--grace', '1s'], sh('echo x > r.dat'));
      expect(await run.status, run.stderr()).toBe(74);
      expect(last()?.left).toEqual([{ path: 'r.dat', why: expect.stringContaining('open for writing') }]);
      expect(fs.existsSync(place.at('r.dat'))).toBe(true);
    } finally {
      fs.closeSync(writer);
    }
  });

  it('when a process that it left behind writes it for longer than the grace, and has to be stopped', async () => {
    const run = place.run(['-r', 'r.dat', '--grace', '1s'], [program('leave-writer.sh'), '600']);
    expect(await run.status, run.stderr()).toBe(74);
    expect(last()?.left).toEqual([{ path: 'r.dat', why: expect.stringContaining('had to be stopped') }]);
    expect(place.keys()).toEqual(['r.dat.0.partial-1']);
    expect(fs.existsSync(place.at('r.dat'))).toBe(true);
  });

  it('when that process closes it itself as it is stopped, long after the task: its name is taken from it', async () => {
    const writer = String.raw`$SIG{TERM} = sub { close R; sleep 1; exit }; open R, '>', 'r.dat'; syswrite R, 'half'; sleep 9 while 1`;
    const script = `perl -e "$W" & until [ -s r.dat ]; do :; done`;
    const run = place.run(['-r', 'r.dat', '--grace', '4s'], sh(script), { W: writer });
    expect(await run.status, run.stderr()).toBe(74);
    expect(last()?.left).toEqual([{ path: 'r.dat', why: expect.stringContaining('had to be stopped') }]);
    expect(run.stderr()).toContain('moved to r.dat.0.partial-1');
    expect(place.keys()).toEqual(['r.dat.0.partial-1']);
  });

  it.each(['r.dat', 'k.chk'])('when the store can no longer be written, and %s with it', async (name) => {
    const task = sh(`find "$S" -type d | xargs chmod a-w; echo x > ${name}`);
    const run = place.run(['-r', 'r.dat', '-k', 'k.chk', '--grace', '3s'], task, { S: place.store });
    // It would be tried for an hour; the store may be found broken before the end of the task or after it.
    await run.says(/the store does not work: .* for up to 1 h/);
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(74);
    expect(lastLine(run.stderr())).toMatch(new RegExp(`NOT stored: ${name} .*last record is NOT written`));
    expect(fs.readFileSync(place.at(name), 'utf8')).toBe('x\n');
  });

  it('when only the last record cannot be written', async () => {
    const task = sh('echo x > r.dat; until [ -e "$S/r.dat.0" ]; do :; done; chmod a-w "$S"/.capture/sh/0');
    const run = place.run(['-r', 'r.dat', '--grace', '3s'], task, { S: place.store });
    await run.says('the store does not work');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(74);
    expect(lastLine(run.stderr())).toContain('the last record is NOT written');
    expect(fs.readFileSync(place.at('r.dat'), 'utf8')).toBe('x\n');
  });
});

describe('a result that the task removes', () => {
  it('while it is pushed is withdrawn, and the run is a success', async () => {
    const script =
      'head -c 50000000 /dev/urandom > r.dat; until [ -n "$(find "$S" -size +1000k)" ]; do :; done; rm r.dat';
    const run = place.run(['-r', 'r.dat'], sh(script), { S: place.store });
    expect(await run.status, run.stderr()).toBe(0);
    expect(last()?.left).toEqual([]);
  });
});

describe('--require-results', () => {
  it('makes a success of which a declared result never came a 74, and names it', async () => {
    const run = place.run(['-r', 'a.dat', '-r', 'b/*.dat', '--require-results'], sh('echo x > a.dat'));
    expect(await run.status).toBe(74);
    expect(last()?.left).toEqual([{ path: 'b/*.dat', why: expect.stringContaining('required') }]);
    expect(lastLine(run.stderr())).toContain('NOT stored: b/*.dat (required');
    expect(place.text('a.dat.0')).toBe('x\n');
  });

  it.each<[string, string]>([
    ['that is stored', 'echo x > a.dat'],
    ['without content', ': > a.dat'],
    ['that another pattern matches too', 'echo x > a.dat; : > all'],
  ])('is content with a result %s', async (_, script) => {
    const run = place.run(['-r', 'a.dat', '-r', '*.dat', '--require-results'], sh(script));
    expect(await run.status, run.stderr()).toBe(0);
  });

  it('is content with a result of an earlier attempt', async () => {
    expect(await place.run(['-r', 'a.dat'], sh('echo x > a.dat')).status).toBe(0);
    place.freshWork();
    expect(await place.run(['-r', 'a.dat', '--require-results'], sh('true')).status).toBe(0);
  });

  it('changes nothing for a task that fails', async () => {
    const run = place.run(['-r', 'a.dat', '--require-results'], sh('exit 3'));
    expect(await run.status).toBe(3);
    expect(last()?.left).toEqual([]);
  });
});

describe('--done-when', () => {
  it('asks to be run again when the task exits 0 without the result that counts', async () => {
    const options = ['-r', 'log', '-k', 'k.chk', '--done-when', 'end.gro'];
    const unfinished = place.run(options, sh('echo part > log; echo 1 > k.chk'));
    expect(await unfinished.status).toBe(75);
    expect(last()?.kind).toBe('preempted');
    place.freshWork();
    expect(await place.run(options, sh('cat k.chk > end.gro; echo all > log')).status).toBe(0);
    expect(last()?.kind).toBe('done');
    expect(place.text('end.gro.0')).toBe('1\n');
  });

  it('ends with the task’s own status when it fails', async () => {
    expect(await place.run(['--done-when', 'end.gro'], sh('exit 4')).status).toBe(4);
  });
});

describe('--again-status', () => {
  it('turns the task’s own word into 75, trusts what it closed, and --skip-done runs it again', async () => {
    const options = [
      '-r',
      'r.dat',
      '-k',
      'k.chk',
      '--again-status',
      '85',
      '--again-status',
      '9',
      '--skip-done',
    ];
    const run = place.run(options, sh('echo 1 > k.chk; echo half > r.dat; exit 85'));
    expect(await run.status).toBe(75);
    expect(last()).toMatchObject({ kind: 'preempted', end: { code: 85, status: 75 } });
    expect(last()?.generations[0]?.suspect).toBeUndefined();
    expect(place.keys()).toEqual(['k.chk.sh.0.1-1', 'r.dat.0']);
    place.freshWork();
    const again = place.run(options, sh('cat k.chk'));
    expect(await again.status).toBe(0);
    expect(again.stdout()).toBe('1\n');
  });
});

describe('--trust-exit', () => {
  it('takes what the task closed before it failed for whole, and passes its status through', async () => {
    const run = place.run(
      ['-r', 'r.dat', '-k', 'k.chk', '--trust-exit', '3'],
      sh('echo r > r.dat; echo k > k.chk; exit 3'),
    );
    expect(await run.status).toBe(3);
    expect(place.keys()).toEqual(['k.chk.sh.0.1-1', 'r.dat.0']);
    expect(last()?.generations[0]?.suspect).toBeUndefined();
  });

  it('does not help a task that ends otherwise', async () => {
    expect(await place.run(['-r', 'r.dat', '--trust-exit', '3'], sh('echo r > r.dat; exit 4')).status).toBe(
      4,
    );
    expect(place.keys()).toEqual(['r.dat.0.partial-1']);
  });
});
