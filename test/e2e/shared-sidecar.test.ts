// One sidecar for all tasks of a machine: who dies, and what becomes of the others.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { array, attemptsIn, leftIn, noneRuns, processesOf, scratchOf } from '../many/support.ts';
import {
  CLOCK_VARIABLE,
  type FromSharedSidecar,
  SIDECAR_VARIABLE,
} from '../../src/model/format/shared-sidecar.ts';
import { clockOffsetMs } from '../../src/native/clock.ts';
import { inNamespace } from '../support/namespace.ts';
import { NOBODY, tmpdirForAll } from '../support/other-user.ts';
import {
  BIN,
  childrenOf,
  isAlive,
  killTree,
  openPlace,
  type Place,
  type Run,
  sidecarOf,
  until,
} from './support.ts';

const SIDECAR = fileURLToPath(new URL('../../dist/sidecar.cjs', import.meta.url));

let place: Place;
beforeEach(() => {
  place = openPlace({ below: tmpdirForAll() });
});
afterEach(() => place.close());

const sh = (script: string): readonly string[] => ['sh', '-c', script];
/** Two at once, on a machine of any size. */
const TWO = ['--array', '0-1', '--jobs', '2', '--memory', '64MiB', '--cpus', '0.5'];
/** Twenty results, slowly. */
const STEADY = 'n=0; while [ $n -lt 20 ]; do n=$((n + 1)); echo {index} $n > r.$n; sleep 0.1; done';
const resultsOf = (index: number): readonly string[] =>
  place.keys().filter((key) => new RegExp(`^r\\.\\d+\\.${index}$`).test(key));
/** Of these, also what has no good name yet. */
const sentOf = (index: number): readonly string[] =>
  place.keys().filter((key) => new RegExp(`^r\\.\\d+\\.${index}(\\.partial-1)?$`).test(key));
const launcherOf = ({ pid }: Run, index: number): number =>
  childrenOf(pid).find((child) => processesOf(place, index).includes(child)) ?? 0;

describe('the tasks of capture array', () => {
  it('share one sidecar process, and each has its own results, messages and record', async () => {
    const options = [...TWO, '-r', 'r.*', '-k', 'k.chk'];
    const run = array(place, options, sh(`echo {index} > k.chk; ${STEADY}`));
    await until(() => resultsOf(0).length > 0 && resultsOf(1).length > 0, 'both are at work');
    expect(sidecarOf(run.pid)).toBeDefined();
    for (const index of [0, 1]) expect(sidecarOf(launcherOf(run, index))).toBeUndefined();
    expect(await run.status, run.stderr()).toBe(0);
    for (const index of [0, 1]) {
      expect(resultsOf(index)).toHaveLength(20);
      expect(place.text(`r.7.${index}`)).toBe(`${index} 7\n`);
      const logs = place.capture(['logs', place.store, String(index)]);
      await logs.status;
      // What the sidecar says of a task stands where the task's launcher says it.
      expect(logs.stdout()).toContain('capture: ');
    }
    const ends = place.records().filter(({ record }) => record.kind === 'done');
    expect(ends).toHaveLength(2);
    expect(run.stderr()).toMatch(/2 of 2 done; \d+(\.\d)? K?i?B stored/);
    expect(leftIn(place)).toEqual([]);
  });

  it('share what is left of inotify on a machine with more tasks than instances', async () => {
    const go = path.join(place.dir, 'go');
    const options = ['--array', '0-7', '--memory', '64MiB', '--cpus', '0.1', '-r', 'r', '--no-logs'];
    const words = ['array', '--to', place.store, `--scratch=${scratchOf(place)}`, ...options];
    const task = sh(`echo {index} > r; until [ -e ${go} ]; do sleep 0.05; done`);
    const few = { limits: { max_inotify_instances: 4 } };
    const run = place.exec(inNamespace(few, [BIN, ...words, '--', ...task], place.work));
    // No scan would find them so soon.
    await until(() => place.keys().length === 8, 'all results are stored while their tasks run');
    fs.writeFileSync(go, '');
    expect(await run.status, run.stderr()).toBe(0);
  });

  it('go on when it is killed while all of them write: another one takes all attempts over', async () => {
    const run = array(place, [...TWO, '-r', 'r.*'], sh(STEADY));
    await until(() => resultsOf(0).length >= 3 && resultsOf(1).length >= 3, 'both write');
    const first = sidecarOf(run.pid) ?? 0;
    process.kill(first, 'SIGKILL');
    await until(() => ![undefined, first].includes(sidecarOf(run.pid)), 'another one');
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).toContain('the sidecar of all tasks died (SIGKILL)');
    for (const index of [0, 1]) {
      expect(resultsOf(index), `index ${index}`).toHaveLength(20);
      expect(place.text(`r.20.${index}`)).toBe(`${index} 20\n`);
    }
    expect([...attemptsIn(place, 'sh').values()]).toEqual([1, 1]);
  });

  it('go on when the launcher of one is killed: only that one is tried again', async () => {
    const fails = 'if [ {index}.$CAPTURED_ATTEMPT = 1.1 ]; then echo closed > r.early; sleep 600; fi';
    const options = [...TWO, '-r', 'r.*', '--retries', '1'];
    const run = array(place, options, sh(`${fails}; ${STEADY}`));
    await until(() => place.keys().includes('r.early.1') && resultsOf(0).length > 0, 'both are at work');
    const sidecar = sidecarOf(run.pid) ?? 0;
    process.kill(launcherOf(run, 1), 'SIGKILL');
    expect(await run.status, run.stderr()).toBe(0);
    expect(isAlive(sidecar)).toBe(false);
    expect(run.stderr()).not.toContain('the sidecar of all tasks died');
    expect(resultsOf(0)).toHaveLength(20);
    expect(resultsOf(1)).toHaveLength(20);
    expect(attemptsIn(place, 'sh')).toEqual(
      new Map([
        [0, 1],
        [1, 2],
      ]),
    );
  });

  it('leave nothing running and no socket when the runner is killed', async () => {
    const run = array(place, [...TWO, '-r', 'r.*'], sh(`echo 1 > r.0; sleep 600`));
    await until(() => place.keys().length === 2, 'both are at work');
    const sidecar = sidecarOf(run.pid) ?? 0;
    run.child.kill('SIGKILL');
    await until(() => !isAlive(sidecar), 'the sidecar has ended');
    await noneRuns(place, [0, 1]);
    const kinds = place.records().map(({ record }) => record.kind);
    expect(kinds.filter((kind) => kind === 'preempted')).toHaveLength(2);
    const [root = ''] = fs.readdirSync(scratchOf(place));
    expect(fs.readdirSync(path.join(scratchOf(place), root))).not.toContain('sidecar');
  });

  it('have a sidecar of their own if their columns say where the store is', async () => {
    const tasks = path.join(place.dir, 't.csv');
    fs.writeFileSync(tasks, 'AWS_PROFILE\none\ntwo\n');
    const run = array(place, ['--tasks', tasks, '-r', 'r'], sh('echo $AWS_PROFILE > r; sleep 1'));
    await until(() => processesOf(place, 0).length > 0, 'the first runs');
    await until(() => sidecarOf(launcherOf(run, 0)) !== undefined, 'it has its own');
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.text('r.1')).toBe('two\n');
  });
});

/** So many bytes in a variable: what the shell itself then writes, no process has closed by its death. */
const block = (bytes: number): string => `x=$(head -c ${bytes} /dev/zero | tr '\\0' x)`;

/** A shared sidecar without a runner, for launchers that the test starts. */
describe('a shared sidecar', () => {
  let sidecar: ChildProcess;
  let told: FromSharedSidecar[];
  /** Messages of tasks whose stderr is a socket, as it is here, stand on the sidecar's own. */
  let said: string;
  let env: NodeJS.ProcessEnv;
  beforeEach(async () => {
    told = [];
    said = '';
    const socket = path.join(place.dir, 'sidecar');
    env = { [SIDECAR_VARIABLE]: socket, [CLOCK_VARIABLE]: String(clockOffsetMs()) };
    sidecar = spawn(process.execPath, [SIDECAR, socket], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, ...env },
    });
    sidecar.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text));
    sidecar.on('message', (message) => told.push(message as FromSharedSidecar));
    await until(() => told.some(({ kind }) => kind === 'listening'), 'it listens');
  });
  afterEach(() => void sidecar.kill('SIGKILL'));

  /** A run of its own work directory. */
  function start(index: number, options: readonly string[], script: string, to = place.store): Run {
    const work = path.join(place.dir, `work-of-${index}`);
    fs.mkdirSync(work);
    const ours = ['--to', to, '--index', String(index), '--task-name', 't', '--workdir', work];
    return place.capture([...ours, ...options, '--', 'sh', '-c', script], env);
  }

  it('is for its own user: nobody else may connect', () => {
    const socket = env[SIDECAR_VARIABLE] ?? '';
    expect(fs.statSync(socket).mode & 0o777).toBe(0o600);
  });

  it.runIf(process.getuid?.() === 0)(
    'says nothing to another user, also if the socket is open to all',
    async () => {
      const socket = env[SIDECAR_VARIABLE] ?? '';
      fs.chmodSync(place.dir, 0o755);
      fs.chmodSync(socket, 0o777);
      const script = `require('node:net').connect(process.argv[1]).on('data', () => console.log('heard'))
      .on('connect', () => console.log('connected')).on('close', () => console.log('closed'))`;
      const drop = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
      const other = place.exec([...drop, process.execPath, '-e', script, socket]);
      expect(await other.status, other.stderr()).toBe(0);
      expect(other.stdout()).toBe('connected\nclosed\n');
      expect(told.map(({ kind }) => kind)).not.toContain('life-begun');
    },
  );

  it('tells its runner what all tasks have stored, and whose lives begin and end', async () => {
    const run = start(0, ['-r', 'r'], 'echo 1234567 > r');
    expect(await run.status, run.stderr()).toBe(0);
    await until(() => told.some(({ kind }) => kind === 'life-over'), 'the life is over');
    const kinds = told.map(({ kind }) => kind);
    expect(kinds).toContain('life-begun');
    const numbers = told.findLast((message) => message.kind === 'numbers');
    expect(numbers).toMatchObject({ numbers: { storedFiles: 1, storedBytes: 8, lagMs: 0, waitingFiles: 0 } });
  });

  it('stores what one task makes while the store of another is gone', async () => {
    const other = path.join(place.dir, 'other');
    const go = path.join(place.dir, 'go');
    const wait = (file: string): string => `until [ -e '${file}' ]; do sleep 0.05; done`;
    const many = 'n=0; while [ $n -lt 60 ]; do n=$((n + 1)); echo $n > r.$n; done';
    const script = `echo 0 > r.0; ${wait(go)}; ${many}; ${wait(`${go}.2`)}`;
    const lost = start(0, ['-r', 'r.*'], script, other);
    await until(() => fs.existsSync(path.join(other, 'r.0.0')), 'the first result');
    fs.renameSync(other, `${other}.away`);
    fs.writeFileSync(go, '');
    await until(() => said.includes('the store does not work'), 'its store does not work');
    const well = start(1, ['-r', 'r.*'], many);
    expect(await well.status, well.stderr()).toBe(0);
    expect(place.keys()).toHaveLength(60);
    fs.renameSync(`${other}.away`, other);
    fs.writeFileSync(`${go}.2`, '');
    expect(await lost.status, lost.stderr()).toBe(0);
    expect(fs.readdirSync(other).filter((name) => name.startsWith('r.'))).toHaveLength(61);
  });

  it.each([
    { what: 'a checkpoint', option: '-k' },
    { what: 'a small result', option: '-r' },
  ])('sends $what of one task before the results of another are through', async ({ option }) => {
    // 40 s of sending: longer than the other task needs to start on a busy machine.
    const count = 400;
    const many = `${block(200_000)}; n=0; while [ $n -lt ${count} ]; do n=$((n + 1)); echo $n$x > r.$n; done`;
    const slow = ['--bandwidth', '2MB/s', '--compression', 'none'];
    const busy = start(0, ['-r', 'r.*', ...slow], `${many}; sleep 600`);
    await until(() => sentOf(0).length >= 2, 'it sends');
    const quick = start(1, [option, 'small', ...slow], 'echo 1 > small; sleep 600');
    await until(() => place.keys().some((key) => key.startsWith('small')), 'what the other has closed');
    expect(sentOf(0).length).toBeLessThan(count);
    for (const run of [busy, quick]) killTree(run.pid);
    await Promise.all([busy.status, quick.status]);
  });

  it('holds all tasks together to --bandwidth', async () => {
    const options = ['-r', 'r', '--bandwidth', '1MB/s', '--compression', 'none'];
    const script = `${block(1e6)}; echo $x > r; sleep 600`;
    const runs = [0, 1, 2, 3].map((index) => start(index, options, script));
    await until(() => place.keys().length === 4, 'all four are stored');
    // The first goes at once, and each other when those before it have left: 3 s, or 0 s if each had the link for itself.
    const storedMs = place.keys().map((key) => fs.statSync(path.join(place.store, key)).mtimeMs);
    expect(Math.max(...storedMs) - Math.min(...storedMs)).toBeGreaterThan(2000);
    for (const run of runs) process.kill(run.pid, 'SIGTERM');
    await Promise.all(runs.map(({ status }) => status));
  });

  it('that is gone for good leaves each launcher to a sidecar of its own', async () => {
    const run = start(0, ['-r', 'r.*'], 'echo 1 > r.1; until [ -e go ]; do sleep 0.05; done; echo 2 > r.2');
    await until(() => place.keys().length === 1, 'the first result');
    sidecar.kill('SIGKILL');
    await run.says('this one starts its own');
    await until(() => sidecarOf(run.pid) !== undefined, 'its own');
    fs.writeFileSync(path.join(place.dir, 'work-of-0/go'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.text('r.2.0')).toBe('2\n');
    expect(place.records().at(-1)?.record).toMatchObject({ kind: 'done', attempt: 1 });
  });

  it('goes on without its runner until the last task has ended', async () => {
    const go = path.join(place.dir, 'work-of-0/go');
    const run = start(0, ['-r', 'r.*'], 'echo 1 > r.1; until [ -e go ]; do sleep 0.05; done; echo 2 > r.2');
    await until(() => place.keys().length === 1, 'the first result');
    sidecar.disconnect();
    fs.writeFileSync(go, '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.keys()).toHaveLength(2);
    await until(() => sidecar.exitCode === 0, 'it has ended');
    expect(childrenOf(run.pid)).toEqual([]);
  });

  it('runs the check of a task with the environment of that task', async () => {
    const options = ['-k', 'k.chk', '--verify-checkpoint', 'test "$WHOSE" = mine', '--verify-at', 'commit'];
    const work = path.join(place.dir, 'work-of-0');
    fs.mkdirSync(work);
    const ours = ['--to', place.store, '--index', '0', '--workdir', work];
    const task = ['--', 'sh', '-c', 'echo 1 > k.chk'];
    const run = place.capture([...ours, ...options, ...task], { ...env, WHOSE: 'mine' });
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.records().at(-1)?.record.generations[0]).toMatchObject({ attempt: 1 });
    expect(said).not.toContain('its check ended with');
  });
});
