// `--workdir auto`: a fresh directory for each attempt, which goes when all is stored.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inNamespace } from '../support/namespace.ts';
import {
  BIN,
  isAlive,
  killTree,
  openPlace,
  type Place,
  program,
  type Run,
  sidecarOf,
  until,
} from './support.ts';

let place: Place;
/** In memory, so it comes before /dev/shm. */
let tmp: string;
beforeEach(() => {
  place = openPlace({ below: '/dev/shm' });
  tmp = path.join(place.dir, 'tmp');
  fs.mkdirSync(tmp);
});
afterEach(() => place.close());

const DECLARED = ['-r', 'r.dat', '-k', 'k.chk'];
function start(task: string, options: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Run {
  const given = ['--workdir', 'auto', '--index', '3', '--task-name', 't', ...DECLARED, ...options];
  return place.run(given, ['sh', '-c', task], { TMPDIR: tmp, ...env });
}

/** `3`, or `3.failed`, below the one directory that is there, or directories. */
const dirs = (): readonly string[] =>
  fs
    .readdirSync(tmp)
    .flatMap((root) => fs.readdirSync(path.join(tmp, root)).filter((name) => name !== 'lock'));
const only = (name: string): string => path.join(tmp, fs.readdirSync(tmp)[0] ?? '', name);

it('makes a directory for its user alone, in memory, and removes it when all is stored', async () => {
  fs.writeFileSync(
    place.at('task.sh'),
    '#!/bin/sh\npwd; stat -c %a .; echo $CAPTURED_SUBMIT_DIR; echo 1 >r.dat',
    {
      mode: 0o755,
    },
  );
  const run = place.run(['--workdir', 'auto', '--index', '3', '-r', 'r.dat'], ['./task.sh'], { TMPDIR: tmp });
  expect(await run.status, run.stderr()).toBe(0);
  const [made = '', mode, from] = run.stdout().split('\n');
  expect(path.relative(tmp, made)).toMatch(/^capture-work\.\w{6}\/3$/);
  expect([mode, from]).toEqual(['700', place.work]);
  expect(run.stderr()).toContain(`; in ${made}; `);
  expect(run.stderr()).not.toContain('try:');
  expect(place.text('r.dat.3')).toBe('1\n');
  expect(fs.readdirSync(tmp)).toEqual([]);
});

it.runIf(process.getuid?.() === 0)(
  'says of a directory with a mount in it only that it cannot be removed, when all is stored',
  async () => {
    const task = 'mkdir m && mount -t tmpfs none m && echo 1 >r.dat';
    const options = ['--workdir', 'auto', '--index', '3', '-r', 'r.dat', '--to', place.store];
    const run = place.exec(['unshare', '-m', BIN, ...options, '--', 'sh', '-c', task], { TMPDIR: tmp });
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).toMatch(/capture-work\.\w{6}\/3\.done-[\w-]+ cannot be removed: .*EBUSY/);
    expect(run.stderr()).not.toContain('may not have stored');
    expect(run.stderr().match(/stays|cannot be removed/g)).toHaveLength(1);
    expect(place.text('r.dat.3')).toBe('1\n');
  },
);

describe('the directory goes', () => {
  it('with an attempt that is preempted, before Slurm is asked to requeue it', async () => {
    const bin = path.join(place.dir, 'bin');
    fs.mkdirSync(bin);
    const asks = `#!/bin/sh\n[ "$1" != requeue ] || ls -A ${tmp} >>${place.dir}/left; exec ${program('slurm-bin')}/scontrol "$@"`;
    fs.writeFileSync(path.join(bin, 'scontrol'), asks, { mode: 0o755 });
    const run = start('echo 1 >k.chk; echo up; exec sleep 60', ['--requeue', 'slurm'], {
      PATH: `${bin}:${process.env['PATH'] ?? ''}`,
      SLURM_JOB_ID: '7',
      SCONTROL_LOG: path.join(place.dir, 'log'),
      SCONTROL_JOB: 'JobState=RUNNING Restarts=0',
      CAPTURE_NODE: process.execPath,
    });
    await run.says('up');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
    expect(run.stderr()).toContain('job 7 is requeued');
    expect(fs.readFileSync(path.join(place.dir, 'left'), 'utf8')).toBe('');
    expect(fs.readdirSync(tmp)).toEqual([]);
  });

  it.each([
    ['an input is missing', ['-i', 'nowhere'], 66],
    ['the command is no program', ['--verify-checkpoint', 'true', '--', 'no-such-program'], 127],
    ['nothing is to be run', ['--dry-run'], 0],
  ])('when %s', async (_, options, status) => {
    const run = start('true', options);
    expect(await run.status, run.stderr()).toBe(status);
    expect(fs.readdirSync(tmp)).toEqual([]);
  });

  it('when the index is done already', async () => {
    for (const said of ['stored 1 result', 'done already']) {
      const run = start('echo 1 >r.dat; echo 1 >k.chk', ['--skip-done']);
      // oxlint-disable-next-line no-await-in-loop -- the second needs the first
      expect(await run.status, run.stderr()).toBe(0);
      expect(run.stderr()).toContain(said);
      expect(fs.readdirSync(tmp)).toEqual([]);
    }
  });
});

describe('after a failure', () => {
  it('a directory in memory is removed once all that was declared is stored, and the last line brings that back', async () => {
    const run = start('echo mine >other; echo 1 >r.dat; exit 3', ['--trust-exit', '3']);
    expect(await run.status, run.stderr()).toBe(3);
    expect(fs.readdirSync(tmp)).toEqual([]);
    expect(run.stderr()).toContain(
      'the work directory was in memory and is removed: what was declared is stored\n  try: for a directory that stays',
    );
    const [, command = ''] =
      /try: to bring back [^:]*, into the current directory: (.*)/.exec(run.stderr()) ?? [];
    const back = place.exec(['sh', '-c', command.replace('capture', BIN)]);
    expect(await back.status, back.stderr()).toBe(0);
    expect(fs.readFileSync(place.at('r.dat'), 'utf8')).toBe('1\n');
  });

  it('a directory on a disk stays, and is named', async () => {
    // In its namespace, memory has no room.
    const disk = openPlace({ below: '/var/tmp' });
    try {
      const run = disk.exec(
        inNamespace(
          { tmpfs: { '/dev/shm': '16m' } },
          [BIN, '--to', disk.store, '--workdir', 'auto', ...DECLARED, '--', 'sh', '-c', 'pwd; exit 3'],
          disk.work,
        ),
        { TMPDIR: disk.dir },
      );
      expect(await run.status, run.stderr()).toBe(3);
      const kept = `${run.stdout().trim()}.failed`;
      expect(run.stderr()).toContain(`the work directory stays: ${kept} on ${os.hostname()}`);
      expect(fs.existsSync(kept)).toBe(true);
    } finally {
      disk.close();
    }
  });
});

describe('the directory stays, and is named', () => {
  it('if a result could not be stored', async () => {
    const run = start('echo mine >other; ln -s /etc/passwd r.dat');
    expect(await run.status, run.stderr()).toBe(74);
    expect(dirs()).toEqual(['3.failed']);
    expect(run.stderr()).toContain(`the work directory stays: ${only('3.failed')} on ${os.hostname()}`);
    expect(run.stderr()).toContain(`try: look at it, then delete it: rm -r ${path.dirname(only(''))}`);
    expect(fs.readFileSync(only('3.failed/other'), 'utf8')).toBe('mine\n');
  });

  it.each([
    ['the task has removed the marks of capture', 'ln -s /etc/passwd r.dat; find . -name "*.json" -delete'],
    ['the task has closed it', 'exec 3>r.dat; chmod 000 .; echo mine >&3'],
  ])('if something could not be stored, and %s', async (_, task) => {
    const own = openPlace({ below: '/dev/shm', unprivileged: true });
    try {
      const auto = ['--workdir', 'auto', '--index', '3', '-r', 'r.dat'];
      const run = own.run(auto, ['sh', '-c', task], { TMPDIR: own.work });
      expect(await run.status, run.stderr()).toBe(74);
      const [root = ''] = fs.readdirSync(own.work);
      expect(fs.readdirSync(path.join(own.work, root))).toEqual(['3.failed']);
      expect(fs.readdirSync(path.join(own.work, root, '3.failed'))).toContain('r.dat');
    } finally {
      own.close();
    }
  });

  it('if a preempted attempt could not store all', async () => {
    const run = start('ln -s /etc/passwd r.dat; echo up; exec sleep 60');
    await run.says('up');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
    expect(dirs()).toEqual(['3.unsaved-1']);
    expect(run.stderr()).toContain(`what could not be stored stays in ${only('3.unsaved-1')}`);
  });
});

describe('what a killed attempt has left', () => {
  const next = async (options = ['--index', '4']): Promise<string> => {
    const run = start('true', options);
    expect(await run.status, run.stderr()).toBe(0);
    return run.stderr();
  };

  /** Everything declared is stored, and recorded; then the task, with its sidecar stopped, does `more`. */
  const killed = async (more = 'true'): Promise<void> => {
    const [go, inputs] = [path.join(place.dir, 'go'), path.join(place.dir, 'inputs')];
    fs.mkdirSync(inputs);
    fs.writeFileSync(path.join(inputs, 'in.dat'), 'in\n');
    const writes =
      'echo mine >other; echo 1 >r.dat; echo 2 >k.chk; exec 3>>c.log; echo one >&3; echo 3 >k.chk';
    const run = start(
      `${writes}; "${BIN}" flush; echo up; until [ -e ${go} ]; do sleep 0.02; done; ${more}; echo done; exec sleep 60`,
      ['--companions', 'c.log', '-i', 'in.dat', '--from', inputs, '-r', 'out/x.dat'],
    );
    await run.says('up');
    await until(
      () =>
        place
          .records()
          .some(
            ({ record: { results, generations } }) =>
              results.length === 1 && generations.some(({ companions }) => companions.length === 1),
          ),
      'its records',
    );
    process.kill(sidecarOf(run.pid) ?? 0, 'SIGSTOP');
    fs.writeFileSync(go, '');
    await run.says('done');
    killTree(run.pid);
    await run.status;
    expect(dirs()).toEqual(['3']);
    expect(fs.readdirSync(only('3'))).toEqual(expect.arrayContaining(['c.log', 'in.dat', 'k.chk', 'other']));
  };

  it.each([['3'], ['4']])(
    'is removed while index %s runs next, if all that was declared is stored',
    async (index) => {
      await killed();
      expect(await next(['--index', index])).not.toContain('stays in');
      expect(fs.readdirSync(tmp)).toEqual([]);
    },
  );

  it.each([
    ['a result is new', 'echo mine >r.dat'],
    ['a checkpoint has changed, and not its size', 'echo 4 >k.chk'],
    ['a companion has grown', 'echo two >&3'],
    ['a result is a link', 'ln -sf in.dat r.dat'],
    ['a file was being reclaimed', 'echo mine >.capture/reclaim/file'],
    ['a file was moved aside', 'mkdir -p .capture/aside; echo mine >.capture/aside/file'],
    ['the facts of the attempt are gone', 'echo >.capture/attempt.json'],
    ['a declared file is behind a linked directory', 'mkdir real; echo mine >real/x.dat; ln -s real out'],
  ])('is set aside, as it is, if %s', async (_, more) => {
    await killed(more);
    const before = fs.readdirSync(only('3'));
    expect(await next()).toContain(`stays in ${only('3.unsaved-1')}`);
    expect(dirs()).toEqual(['3.unsaved-1']);
    expect(fs.readdirSync(only('3.unsaved-1'))).toEqual(before);
  });

  it('is set aside if its object is gone from the store', async () => {
    await killed();
    for (const key of place.keys()) if (key.includes('k.chk')) fs.rmSync(path.join(place.store, key));
    expect(await next()).toContain(`stays in ${only('3.unsaved-1')}`);
  });

  it.each([
    ['store', () => ['--to', path.join(place.dir, 'other')]],
    ['task name', () => ['--task-name', 'other']],
  ])('is set aside by a run with another %s', async (_, options) => {
    await killed();
    expect(await next(['--index', '3', ...options()])).toContain(`stays in ${only('3.unsaved-1')}`);
  });

  it('is left alone while its sidecar lives, and removed once that has stored all', async () => {
    const go = path.join(place.dir, 'go');
    const run = start(`echo up; until [ -e ${go} ]; do sleep 0.02; done; echo mine >r.dat`);
    await run.says('up');
    const sidecar = sidecarOf(run.pid) ?? 0;
    process.kill(run.pid, 'SIGKILL');
    await next();
    expect(dirs()).toEqual(['3']);
    fs.writeFileSync(go, '');
    await until(() => !isAlive(sidecar), 'the end of the sidecar');
    expect(place.text('r.dat.3')).toBe('mine\n');
    expect(await next()).not.toContain('stays in');
    expect(fs.readdirSync(tmp)).toEqual([]);
  });

  it.each([
    ['', 'exec sleep 60'],
    [' with nothing of capture in its environment', 'exec env -i sleep 60'],
  ])(
    'is left alone while a process of its task lives%s, though launcher and sidecar are gone',
    async (_, rest) => {
      const run = start(`ln -s /etc/passwd r.dat; echo $$ >${place.dir}/pid; echo up; ${rest}`);
      await run.says('up');
      const task = Number(fs.readFileSync(path.join(place.dir, 'pid'), 'utf8'));
      const sidecar = sidecarOf(run.pid) ?? 0;
      try {
        process.kill(run.pid, 'SIGSTOP');
        process.kill(sidecar, 'SIGKILL');
        process.kill(run.pid, 'SIGKILL');
        await until(() => !isAlive(sidecar) && !isAlive(run.pid), 'their end');
        await next();
        expect(dirs()).toEqual(['3']);
      } finally {
        process.kill(task, 'SIGKILL');
      }
      await until(() => !isAlive(task), 'the end of the task');
      expect(await next()).toContain(`stays in ${only('3.unsaved-1')}`);
    },
  );
});

describe('while it sweeps what a killed attempt has left', () => {
  const FILES = 20_000;
  const left = 'capture-work.aaaaaa';
  /** A directory in memory is as large as it has names. To read it would be to use it. */
  const sizeLeft = (): number => fs.statSync(path.join(tmp, left, '3'), { throwIfNoEntry: false })?.size ?? 0;

  it.each([
    ['SIGTERM', [], 75],
    ['SIGINT', [], 130],
    ['SIGUSR2', ['--notice-on', 'USR2'], 75],
  ] as const)('%s ends the run as before any task: nothing is started', async (signal, options, status) => {
    fs.mkdirSync(path.join(tmp, left, '3/.capture'), { recursive: true, mode: 0o700 });
    fs.writeFileSync(path.join(tmp, left, 'lock'), `${left}\n`, { mode: 0o600 });
    fs.writeFileSync(path.join(tmp, left, '3/.capture/saved'), '');
    for (let n = 0; n < FILES; n += 1) fs.writeFileSync(path.join(tmp, left, '3', `f${n}`), '');
    const all = sizeLeft();
    const run = start(`touch ${place.dir}/began`, options);
    await until(() => sizeLeft() < all, 'it sweeps');
    process.kill(run.pid, 'SIGSTOP');
    expect(sizeLeft()).toBeGreaterThan(0);
    process.kill(run.pid, signal);
    process.kill(run.pid, 'SIGCONT');
    expect(await run.status, run.stderr()).toBe(status);
    expect(run.stderr()).toContain(`${signal} before the task was started: nothing was started`);
    expect(fs.existsSync(path.join(place.dir, 'began'))).toBe(false);
    // What it has not swept is for the next one.
    expect(fs.readdirSync(tmp).filter((name) => name !== left)).toEqual([]);
    // A start waits for it only so long: on a busy machine it takes several.
    const stillThere = (): number => fs.readdirSync(tmp).length + sizeLeft();
    for (let before = Infinity; stillThere() > 0 && stillThere() < before;) {
      before = stillThere();
      const next = start('true');
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await next.status, next.stderr()).toBe(0);
    }
    expect(fs.readdirSync(tmp)).toEqual([]);
  });
});

it('dies with SIGTERM to the script that has become capture', async () => {
  const script = `#!/bin/sh\nexec "${BIN}" --to "${place.store}" --workdir auto ${DECLARED.join(' ')} -- sh -c 'echo 1 >k.chk; echo up; exec sleep 60'`;
  const run = place.exec(['sh', '-c', script], { TMPDIR: tmp });
  await run.says('up');
  process.kill(run.pid, 'SIGTERM');
  expect(await run.status, run.stderr()).toBe(75);
  expect(place.records().at(-1)?.record.kind).toBe('preempted');
  expect(fs.readdirSync(tmp)).toEqual([]);
});
