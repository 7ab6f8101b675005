// Real processes, real deaths: a close that the kernel made for a process that was killed is never called clean, and
// one that a process made itself and lived on is, whoever started it.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Evidence } from '../../src/model/file/evidence.ts';
import { readStat } from '../../src/native/processes.ts';
import { readProc } from '../../src/native/processes.ts';
import { openWitness, type Witness } from '../../src/watch/witness.ts';
import { freshDirectory, watched, type Watched } from './support.ts';

/** Longer than a death casts doubt on the closes that follow it. */
const CALM_MS = 1200;
const LONG = 'sleep 3600';

/** `whole NAME`: writes, closes and lives on. `torn NAME`: is killed in the middle of it. */
const SIM = String.raw`
$| = 1;
my ($what, $name) = @ARGV;
open(my $file, '>', $name) or die;
syswrite($file, 'x' x 100_000);
kill('KILL', $$) if $what eq 'torn';
close($file);
sleep 3600;
`;

interface Lab extends Watched {
  readonly launcher: ChildProcess;
  /** Runs shell text in the background, below the launcher. */
  run(script: string): void;
  evidenceOf(name: string): Promise<Evidence>;
}

async function lab(): Promise<Lab> {
  const dir = freshDirectory();
  const programs = freshDirectory();
  fs.writeFileSync(`${programs}/sim`, SIM);
  // Adopts nobody: what it starts is its child and stays it.
  const launcher = spawn('bash', ['--norc'], {
    cwd: dir,
    stdio: ['pipe', 'ignore', 'inherit'],
    detached: true,
  });
  const pid = launcher.pid ?? 0;
  onTestFinished(() => void process.kill(-pid, 'SIGKILL'));
  const witness = open(pid);
  onTestFinished(() => witness?.close());
  const watch = await watched({ dir, witness });
  return {
    ...watch,
    launcher,
    run: (script) => launcher.stdin?.write(`( ${script} ) &\n`),
    evidenceOf: async (name) =>
      (await watch.heard(({ path, how }) => path === name && how === 'close')).evidence,
  };

  function open(from: number): Witness | undefined {
    process.env['SIM'] = `perl ${programs}/sim`;
    return openWitness({ launcher: from, self: process.pid, token: 'none' });
  }
}

const sim = (what: 'whole' | 'torn', name: string): string => `${process.env['SIM']} ${what} ${name}`;

describe('who closed a file', () => {
  it.each<[string, (name: string) => string]>([
    ['a program', (name) => `exec ${sim('whole', name)}`],
    ['a program below a shell', (name) => `sh -c '${sim('whole', name)}; exit 3'`],
    ['one of several ranks', (name) => `${LONG} & ${LONG} & ${sim('whole', name)} & wait`],
    ['a shell itself', (name) => `echo whole > ${name}; ${LONG}`],
  ])('is %s, which lives on: the close is clean', async (_, script) => {
    const { run, evidenceOf } = await lab();
    for (const name of ['a', 'b', 'c']) {
      run(script(name));
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await evidenceOf(name)).toBe('clean');
    }
  });

  it.each<[string, (name: string) => string]>([
    ['itself', (name) => `exec ${sim('torn', name)}`],
    ['below a shell that lives on', (name) => `sh -c '${sim('torn', name)}; ${LONG}'`],
    ['below a shell that ends with 0', (name) => `sh -c '${sim('torn', name)}; exit 0'`],
    ['below a shell that does not wait for it', (name) => `sh -c '${sim('torn', name)} & exec ${LONG}'`],
    ['as one of several ranks', (name) => `${LONG} & ${LONG} & ${sim('torn', name)} & wait`],
    [
      'with a file that its shell has opened for it',
      (name) => `{ ${sim('torn', '/dev/null')}; } > ${name}; ${LONG}`,
    ],
    [
      'together with all that stands above it',
      (name) => `bash -c '(${sim('torn', name)}; ${LONG}) & sleep 0.1; kill -9 $$'`,
    ],
  ])('was killed, %s: the close is never clean', async (_, script) => {
    const { run, evidenceOf } = await lab();
    for (let n = 0; n < 10; n += 1) {
      run(script(`torn.${n}`));
      // oxlint-disable-next-line no-await-in-loop -- one after the other: each death is looked at by itself
      expect(await evidenceOf(`torn.${n}`)).toBe('doubtful');
    }
  });

  it('is a process that outlived the death of another: the close is clean again, a moment later', async () => {
    const { run, evidenceOf } = await lab();
    // Long before a look is due that no close has caused: that one could hear `whole` without seeing why it is doubted.
    run(`${sim('torn', 'torn')} & sleep 0.5; echo whole > whole; ${LONG}`);
    expect(await evidenceOf('torn')).toBe('doubtful');
    // The look that tells of it comes with a close: `sleep` has ended as well.
    expect(await evidenceOf('whole')).toBe('doubtful');
    await pause(CALM_MS);
    run(`exec ${sim('whole', 'later')}`);
    expect(await evidenceOf('later')).toBe('clean');
  });

  it('is found in one look for all that was closed together', async () => {
    const { run, events, until } = await lab();
    run(`for n in $(seq 500); do echo x > f$n; done; ${LONG}`);
    await until(() => events.length >= 500);
    // `seq` has ended just before.
    expect(new Set(events.map(({ evidence }) => evidence))).toEqual(new Set(['doubtful']));
  });
});

describe('nobody has died since the attempt began', () => {
  /** A launcher that has had children before the witness, and one that runs. */
  async function begun() {
    const { run, launcher, dir } = await lab();
    const pid = launcher.pid ?? 0;
    const done = async (script: string): Promise<void> => {
      launcher.stdin?.write(`${script}; : > ${dir}/done\n`);
      await vi.waitFor(() => fs.rmSync(`${dir}/done`), 10_000);
    };
    await done('/bin/true');
    run(`: > up; exec ${LONG}`);
    await vi.waitFor(() => fs.rmSync(`${dir}/up`), 10_000);
    const witness = (launcherFaults: number | undefined): Witness => {
      const opened = openWitness({ launcher: pid, launcherFaults, self: process.pid, token: 'none' });
      if (opened === undefined) throw new Error('nobody can see the processes');
      onTestFinished(() => opened.close());
      return opened;
    };
    return { pid, done, witness };
  }
  const isSaid = (witness: Witness): boolean => {
    const atMs = performance.now();
    witness.judge();
    return witness.nobodyDiedUntil(atMs);
  };

  it('holds until the last look if the launcher has reported which of its children have ended', async () => {
    const { pid, witness } = await begun();
    const told = witness(readStat(pid)?.childFaults);
    expect(isSaid(told)).toBe(true);
    expect(told.nobodyDiedUntil(performance.now())).toBe(false);
    expect(isSaid(told)).toBe(true);
    expect(isSaid(witness(undefined))).toBe(false);
  });

  it('does not hold if a process died before the first look, or after it', async () => {
    const { pid, done, witness } = await begun();
    const faults = readStat(pid)?.childFaults;
    const before = witness(faults);
    await done('/bin/true');
    expect(isSaid(witness(faults))).toBe(false);
    expect(isSaid(before)).toBe(false);
    expect(isSaid(before)).toBe(false);
  });

  it('does not hold if a process of the task has waited for a dead one', async () => {
    const { pid, done, witness } = await begun();
    await done(`sh -c '/bin/true; : > up; exec ${LONG}' & until [ -e up ]; do :; done`);
    expect(isSaid(witness(readStat(pid)?.childFaults))).toBe(false);
  });
});

describe('nobody can say who closed a file', () => {
  it('without a launcher', () => {
    expect(openWitness({ launcher: undefined, self: process.pid, token: 'none' })).toBeUndefined();
  });

  it.each(['srun', 'docker'])('when %s lets a daemon write', async (starter) => {
    const { run, evidenceOf, dir } = await lab();
    const bin = freshDirectory();
    fs.copyFileSync('/bin/sleep', `${bin}/${starter}`);
    fs.chmodSync(`${bin}/${starter}`, 0o755);
    run(`${bin}/${starter} 3600`);
    await pause(200);
    fs.writeFileSync(`${dir}/by-a-daemon`, 'x');
    expect(await evidenceOf('by-a-daemon')).toBe('unknown');
  });
});

/** A daemon with an environment of its own that starts ranks for a task, and a launcher whose task may call it. */
async function ranks(daemonScript: string) {
  const dir = freshDirectory();
  const programs = freshDirectory();
  fs.writeFileSync(`${programs}/sim`, SIM);
  fs.copyFileSync('/bin/sleep', `${programs}/srun`);
  fs.chmodSync(`${programs}/srun`, 0o755);
  const start = (command: string): ChildProcess => {
    const child = spawn('bash', ['--norc', '-c', command], {
      cwd: dir,
      stdio: ['pipe', 'ignore', 'inherit'],
      detached: true,
    });
    onTestFinished(() => void process.kill(-(child.pid ?? 0), 'SIGKILL'));
    return child;
  };
  // Of this test alone: what the one before has started may still be dying.
  const token = `token-${randomUUID()}`;
  const launcher = start(`read -r go; ${programs}/srun 3600; :`);
  const daemon = start(daemonScript);
  const tell = (line: string): void =>
    void daemon.stdin?.write(`CAPTURED_RUN=${token} perl ${programs}/sim ${line}\n`);
  tell('whole first');
  // Where a daemon has started nothing yet, nobody can say who closes a file.
  while (!fs.existsSync(`${dir}/first`)) await pause(10);
  const pid = launcher.pid ?? 0;
  return {
    /** Starts srun, as the task would: it is there before its daemon does anything. */
    callDaemon: async (): Promise<void> => {
      launcher.stdin?.write('go\n');
      const isThere = (): boolean => childrenOf(pid).some((child) => readProc(child, 'comm') === 'srun\n');
      while (!isThere()) await pause(10);
    },
    /** Takes the first look. */
    evidence: async (): Promise<(line: string) => Promise<Evidence>> => {
      const witness = openWitness({ launcher: pid, self: process.pid, token });
      onTestFinished(() => witness?.close());
      // A look is taken for a close only.
      const { heard } = await watched({ dir, witness: onlyForCloses(witness) });
      return async (line) => {
        tell(line);
        return (await heard(({ path }) => path === line.split(' ')[1])).evidence;
      };
    },
  };
}

function onlyForCloses(witness: Witness | undefined): Witness | undefined {
  if (witness === undefined) return undefined;
  return Object.assign(Object.create(witness) as Witness, { whenDue: () => undefined });
}

function childrenOf(pid: number): readonly number[] {
  return (readProc(pid, `task/${pid}/children`) ?? '').trim().split(' ').map(Number);
}

describe('a daemon that starts the task’s ranks', () => {
  it.each([
    ['waits for it at once', 'while read -r line; do eval "$line &"; done', ['clean']],
    [
      'has not waited for it yet',
      `perl -e 'while (<STDIN>) { fork or exec "bash", "-c", "exec env $_" }'`,
      // Doubt without a death is the safe side, and was seen on a busy machine.
      ['clean', 'doubtful'],
    ],
  ])(
    'is seen by CAPTURED_RUN in their environment: a rank that lives on closes cleanly, one that is killed does not, if the daemon %s',
    async (_, waits, whole) => {
      const { callDaemon, evidence } = await ranks(waits);
      await callDaemon();
      const evidenceOf = await evidence();
      expect(whole).toContain(await evidenceOf('whole second'));
      expect(await evidenceOf('torn third')).toBe('doubtful');
    },
  );

  it('is started after the last look: the first closes are unknown, because ranks may have come and gone', async () => {
    const { callDaemon, evidence } = await ranks('while read -r line; do eval "$line &"; done');
    const evidenceOf = await evidence();
    await callDaemon();
    expect(await evidenceOf('whole second')).toBe('unknown');
    expect(await evidenceOf('whole third')).toBe('clean');
  });
});

it('looks when a look is due although nothing is closed, so that an old death casts no doubt on the next close', async () => {
  const asked = new Promise<void>((resolve, reject) => {
    let look = (): void => undefined;
    const witness = {
      nextMs: 0,
      whenDue: (due: () => void): void => {
        look = due;
      },
      judge: (): Evidence => {
        resolve();
        return 'clean';
      },
    };
    watched({ witness }).then(() => look(), reject);
  });
  await expect(asked).resolves.toBeUndefined();
});
