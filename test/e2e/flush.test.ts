// `capture flush` from the scripts of a task: when it returns 0, what was closed is in the store and recorded.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startS3Server, type S3Server } from '../s3-server/server.ts';
import { NOBODY, programForAll, tmpdirForAll } from '../support/other-user.ts';
import { BIN, killTree, openPlace, sidecarOf, until, type Place, type Run } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace({ below: tmpdirForAll() });
});
afterEach(() => place.close());

const env = (): NodeJS.ProcessEnv => ({ PATH: `${path.dirname(BIN)}:${process.env['PATH'] ?? ''}` });
const run = (options: readonly string[], script: string): Run =>
  place.run(options, ['sh', '-c', script], env());
/** A task that goes on until the file `go` is there. */
const UNTIL_GO = 'until [ -e go ]; do sleep 0.02; done';
const go = (): void => fs.writeFileSync(place.at('go'), '');
/** Where the task of a run finds its sidecar; it must have said it: `echo "socket $CAPTURED_SOCKET"`. */
const socketOf = async (of: Run): Promise<string> => {
  await of.says(/socket \S+\n/);
  return /socket (\S+)\n/.exec(of.stdout())?.[1] ?? '';
};
const TELL = 'echo "socket $CAPTURED_SOCKET"';
const flush = (socket: string, ...args: readonly string[]): Run =>
  place.capture(['flush', ...args], { CAPTURED_SOCKET: socket });

describe('capture flush between the steps of a task', () => {
  it('returns when what was closed is stored and recorded, with the results of that moment', async () => {
    const seen = `cp -r ${place.store} seen`;
    const task = run(
      ['-r', '*.dat'],
      `echo 1 > a.dat; echo 1 > b.dat; capture flush && ${seen}1; echo 2 > a.dat; capture flush && ${seen}2; echo 3 > a.dat; capture flush && ${seen}3`,
    );
    expect(await task.status, task.stderr()).toBe(0);
    const at = (n: number, file: string): string => place.at(`seen${n}/${file}`);
    expect(fs.readFileSync(at(1, 'a.dat.0'), 'utf8')).toBe('1\n');
    expect(fs.readFileSync(at(1, 'b.dat.0'), 'utf8')).toBe('1\n');
    // Not held for the two seconds that a close waits which replaces something.
    expect(fs.readFileSync(at(2, 'a.dat.0'), 'utf8')).toBe('2\n');
    // Nor for the record that would have been written by itself: its pauses double.
    expect(fs.readFileSync(at(3, 'a.dat.0'), 'utf8')).toBe('3\n');
    const recorded = (n: number): string[] => {
      const dir = at(n, '.capture/sh/0');
      const newest = fs
        .readdirSync(dir)
        .filter((name) => name.endsWith('.stored.json'))
        .toSorted()
        .at(-1);
      const { results } = JSON.parse(fs.readFileSync(path.join(dir, newest ?? ''), 'utf8')) as {
        results: { path: string; size: number; md5: string }[];
      };
      return results.map((file) => `${file.path} ${file.md5}`).toSorted();
    };
    expect(recorded(1).map((line) => line.split(' ')[0])).toEqual(['a.dat', 'b.dat']);
    expect(recorded(2)[0]).not.toBe(recorded(1)[0]);
    expect(recorded(2)[1]).toBe(recorded(1)[1]);
  });

  it('commits a checkpoint that is complete, and says of one that is not what it waits for', async () => {
    const task = run(
      ['-k', 'a.chk', '-k', 'b.chk', '--checkpoint-settle', '10m'],
      'echo 1 > a.chk; capture flush; echo "one $?"; ls ../store/.capture/sh/0; echo 1 > b.chk; capture flush; echo "two $?"; ls ../store/.capture/sh/0 >&2',
    );
    expect(await task.status, task.stderr()).toBe(0);
    expect(task.stdout()).toContain('one 0\n');
    expect(task.stdout()).toContain('two 0\n');
    expect(task.stdout()).not.toContain('.checkpoint.json');
    expect(task.stderr()).toContain('.checkpoint.json');
  });

  it('takes no cut of a set in the middle of a round', async () => {
    // The first round teaches that both belong together.
    const task = run(
      ['-k', 'a.chk', '-k', 'b.chk', '--checkpoint-settle', '10m'],
      'echo 1 > a.chk; echo 1 > b.chk; capture flush; echo 2 > a.chk; capture flush; echo "half $?"; ls ../store/.capture/sh/0; echo 2 > b.chk; capture flush; echo "whole $?"',
    );
    expect(await task.status, task.stderr()).toBe(0);
    expect(task.stdout()).toContain('half 0\n');
    expect(task.stderr()).toContain('not a complete set yet: more of it is still to be closed');
    expect(task.stdout().match(/checkpoint\.json/g)).toHaveLength(1);
    expect(task.stdout()).toContain('whole 0\n');
    expect(place.records().at(-1)?.record.generations).toHaveLength(2);
  });

  it('commits what matches a glob at once: it is the task that says that it is whole', async () => {
    const task = run(
      ['-k', '*.chk', '--checkpoint-settle', '10m'],
      `for n in 1 2 3; do echo $n > a.$n.chk; capture flush --strict
       cat ../store/.capture/sh/0/*.checkpoint.json | grep -q a.$n.chk && echo "committed $n"; done`,
    );
    expect(await task.status, task.stderr()).toBe(0);
    expect(task.stdout()).toBe('committed 1\ncommitted 2\ncommitted 3\n');
  });

  it('waits for nothing that is written after it was called', async () => {
    const task = run(
      ['-r', '*.log'],
      `(until [ -e go ]; do date +%N >> busy.log; done) & echo 1 > calm.log; capture flush --timeout 60s; echo "flush $?"; touch go; wait`,
    );
    expect(await task.status, task.stderr()).toBe(0);
    expect(task.stdout()).toContain('flush 0\n');
  });

  it('returns at once when nothing was closed, a hundred times at the same time, too', async () => {
    const task = run(
      ['-r', 'r.dat'],
      'echo 1 > r.dat; for n in 1 2 3 4 5 6 7 8 9 10 11 12; do capture flush & done; wait; capture flush --timeout 0s; echo "flush $?"',
    );
    expect(await task.status, task.stderr()).toBe(0);
    expect(task.stdout()).toContain('flush 0\n');
  });

  it('lists a file that somebody writes again', async () => {
    const task = run(
      ['-r', 'r.dat', '--log-level', 'debug'],
      'echo 1 > r.dat; exec 8>> r.dat; echo 2 >> r.dat; capture flush --timeout 1s; echo "flush $?"; exec 8>&-; capture flush; echo "flush $?"',
    );
    expect(await task.status, task.stderr()).toBe(0);
    expect(task.stdout()).toBe('flush 74\nflush 0\n');
    expect(task.stderr()).toContain('r.dat (another process still has it open for writing)');
  });
});

describe('what the task has vouched for by capture flush', () => {
  /** A step whose process ends as its files are closed: nobody could say that this was no death. */
  const step = `sh -c 'echo one > r.dat; echo one > k.chk'`;
  /** The next one is killed in the middle of a write. */
  const torn = `sh -c 'exec 3>s.dat; printf half >&3; kill -9 $$'`;
  const options = ['-r', '*.dat', '-k', 'k.chk', '--task-name', 't'];
  const marks = (): readonly string[] =>
    (place.records().at(-1)?.record.generations ?? []).map(({ unproven, suspect }) =>
      unproven === true ? 'unproven' : suspect === true ? 'suspect' : 'good',
    );
  const results = (): readonly string[] => place.keys().filter((key) => /^.\.dat\.0/.test(key));

  it('stays good when the next step fails at once, and what was closed after the call does not', async () => {
    const task = run(options, `${step}; capture flush --strict || exit 9; ${torn}; exit 1`);
    expect(await task.status, task.stderr()).toBe(1);
    expect(results()).toEqual(['r.dat.0', 's.dat.0.partial-1']);
    expect(marks()).toEqual(['good']);
  });

  it('is recorded as proven when the call returns, so that it counts when the machine is gone then', async () => {
    const task = run(
      options,
      `${step}; until [ -e go ]; do :; done; capture flush --strict && echo flushed; until [ -e end ]; do :; done`,
    );
    await until(() => marks()[0] === 'unproven', 'the set of a process that ended');
    go();
    await task.says('flushed');
    expect(marks()).toEqual(['good']);
    killTree(task.pid);
    await task.status;
    expect(results()).toEqual(['r.dat.0']);
  });

  it('stays good when the sidecar dies and another one takes over', async () => {
    const task = run(options, `${step}; capture flush --strict || exit 9; echo flushed; ${UNTIL_GO}; exit 1`);
    await task.says('flushed');
    process.kill(sidecarOf(task.pid) ?? 0, 'SIGKILL');
    await task.says('the sidecar was restarted');
    go();
    expect(await task.status, task.stderr()).toBe(1);
    expect(results()).toEqual(['r.dat.0']);
    // What the new one has found and nobody has vouched for is a set of its own, behind this one.
    expect(marks().at(-1)).toBe('good');
  });

  it('after SIGTERM stays good when the task is killed then', async () => {
    const task = run(
      [...options, '--grace', '20s'],
      `trap "${step}; capture flush --strict; echo flushed; kill -9 \\$\\$" TERM; echo up; until [ -e go ]; do :; done`,
    );
    await task.says('up');
    process.kill(task.pid, 'SIGTERM');
    expect(await task.status, task.stderr()).toBe(75);
    expect(task.stdout()).toContain('flushed');
    expect(results()).toEqual(['r.dat.0']);
    expect(marks()).toEqual(['good']);
  });
});

describe('capture flush while files are open', () => {
  const companions = (): readonly string[] =>
    (place.records().at(-1)?.record.generations[0]?.companions ?? []).map(
      ({ path, size }) => `${path} ${size}`,
    );

  it('names them, and fails for a checkpoint only when it is asked to be strict', async () => {
    const task = run(
      ['-k', 'state.h5', '-r', 'r.*'],
      `exec 3>state.h5 4>r.h5 5>r.h5; echo 1 >&3; echo a long line >&4; echo 1 >&5
       capture flush; echo "flush $?"; capture flush --strict; echo "strict $?"; exec 3>&-
       until capture flush --strict; do sleep 0.1; done 2>/dev/null; echo closed`,
    );
    expect(await task.status, task.stderr()).toBe(0);
    expect(task.stdout()).toBe('flush 0\nstrict 74\nclosed\n');
    expect(task.stderr()).toContain(
      'open, and not stored before the task closes it: state.h5 (a checkpoint), r.h5',
    );
  });

  it('stores companions and results that are only appended to as far as they are written', async () => {
    const task = run(
      ['-k', 'k.chk', '--companions', 'log', '-r', 'traj'],
      `exec 3>log 4>traj; echo 1 >&3; echo 1 >&4; echo 1 > k.chk; capture flush; echo 2 >&3; echo 2 >&4
       capture flush; echo "flush $?"; ${UNTIL_GO}`,
    );
    await task.says('flush 0');
    expect(companions()).toEqual(['log 4', 'traj 4']);
    expect(task.stderr()).not.toContain('open, and not stored');
    go();
    expect(await task.status, task.stderr()).toBe(0);
  });

  it('stores companions of a task that has no checkpoint', async () => {
    const task = run(
      ['--companions', 'log'],
      `exec 3>log; echo 1 >&3; capture flush; echo "flush $?"; ${UNTIL_GO}`,
    );
    await task.says('flush 0');
    expect(companions()).toEqual(['log 2']);
    go();
    expect(await task.status, task.stderr()).toBe(0);
  });
});

describe('capture flush --ping', () => {
  it('exits with 0 while capture watches', async () => {
    const task = run(['-r', 'r.dat'], `${TELL}; capture flush --ping; echo "ping $?"; ${UNTIL_GO}`);
    await task.says('ping 0');
    expect(await flush(await socketOf(task), '--ping').status).toBe(0);
    go();
    await task.status;
    const late = flush(await socketOf(task), '--ping');
    expect(await late.status).toBe(69);
    expect(late.stderr()).toMatch(/nobody answers at .*: ENOENT\n {2}try: /);
  });

  it('exits with 69 and a hint where there is no capture at all; a flush says so and lets the script go on', async () => {
    const probe = place.capture(['flush', '--ping']);
    expect(await probe.status).toBe(69);
    expect(probe.stderr()).toMatch(/CAPTURED_SOCKET is not set\n {2}try: /);
    const script = place.capture(['flush']);
    expect(await script.status, script.stderr()).toBe(0);
    expect(script.stderr()).toContain('no capture runs this, so nothing is stored');
  });

  it('exits with 64 for a name that no socket can have', async () => {
    const long = place.capture(['flush', '--control', `/${'x'.repeat(200)}`]);
    expect(await long.status).toBe(64);
    expect(long.stderr()).toContain('at most 107 bytes');
  });
});

describe('the control socket of a run', () => {
  it('stands elsewhere when the work directory has too long a name, and leaves nothing behind', async () => {
    const deep = place.at('d'.repeat(120));
    fs.mkdirSync(deep);
    const task = place.run(
      ['-r', 'r.dat', '--workdir', deep],
      ['sh', '-c', `${TELL}; echo 1 > r.dat; capture flush; echo "flush $?"; ls ../../store`],
      env(),
    );
    expect(await task.status, task.stderr()).toBe(0);
    expect(task.stdout()).toContain('flush 0\n');
    expect(task.stdout()).toContain('r.dat.0');
    expect(fs.existsSync(path.dirname(await socketOf(task)))).toBe(false);
  });

  it('is answered by the sidecar that replaces a dead one, at the same place', async () => {
    const task = run(['-r', '*.dat'], `echo 1 > a.dat; ${TELL}; ${UNTIL_GO}`);
    const socket = await socketOf(task);
    const first = sidecarOf(task.pid) ?? 0;
    process.kill(first, 'SIGKILL');
    // Nobody listens now; the flush waits for the next one.
    fs.writeFileSync(place.at('b.dat'), 'b');
    const asked = flush(socket, '--timeout', '60s');
    expect(await asked.status, asked.stderr()).toBe(0);
    expect(sidecarOf(task.pid)).not.toBe(first);
    expect(place.keys()).toEqual(['a.dat.0', 'b.dat.0']);
    go();
    expect(await task.status).toBe(0);
  });

  it.runIf(process.getuid?.() === 0)('is not believed if it is of another user, also by root', async () => {
    const control = `${place.dir}/control`;
    const answer = JSON.stringify({ kind: 'flushed', left: [], more: 0, open: [] });
    const server = net.createServer((client) => client.on('data', () => client.end(`${answer}\n`)));
    server.listen(control);
    await once(server, 'listening');
    try {
      expect(await place.capture(['flush', '--strict', '--control', control]).status).toBe(0);
      fs.chownSync(control, NOBODY, NOBODY);
      const asked = place.capture(['flush', '--strict', '--control', control]);
      expect(await asked.status).toBe(69);
      expect(asked.stderr()).toContain(`user ${NOBODY} listens there, and you are 0`);
    } finally {
      server.close();
    }
  });

  it.runIf(process.getuid?.() === 0)('answers no other user', async () => {
    fs.chmodSync(place.dir, 0o755);
    const control = `${place.dir}/control`;
    const watch = place.capture(['watch', '--to', place.store, '-r', '*.dat', '--control', control]);
    await watch.says('attempt 1');
    await until(() => fs.existsSync(control), 'the socket');
    fs.chmodSync(control, 0o666);
    const child = spawn(programForAll(BIN, place.dir), ['flush', '--control', control], {
      uid: NOBODY,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
    const [status] = (await once(child, 'close')) as [number];
    expect({ status, said }).toEqual({ status: 69, said: expect.stringContaining(`you are ${NOBODY}`) });
    process.kill(watch.pid, 'SIGTERM');
    expect(await watch.status).toBe(0);
  });
});

describe('capture watch --control', () => {
  it('is asked by its name, and names it no longer when it ends', async () => {
    const control = `${place.dir}/control`;
    const watch = place.capture(['watch', '--to', place.store, '-r', '*.dat', '--control', control]);
    await watch.says('attempt 1');
    await until(() => fs.existsSync(control), 'the socket');
    fs.writeFileSync(place.at('a.dat'), 'a');
    expect(await place.capture(['flush', '--control', control]).status).toBe(0);
    expect(place.keys()).toEqual(['a.dat.0']);
    process.kill(watch.pid, 'SIGTERM');
    expect(await watch.status).toBe(0);
    expect(fs.existsSync(control)).toBe(false);
  });
});

describe('capture flush while the store is out of order', () => {
  let server: S3Server;
  beforeAll(async () => {
    server = await startS3Server();
  });
  afterAll(() => server.stop());

  const onS3 = (name: string, script: string): Run =>
    place.capture(
      ['--to', `s3://${server.bucket}/${name}`, '--path-style', '-r', '*.dat', '--', 'sh', '-c', script],
      {
        ...server.env,
        ...env(),
      },
    );

  it('lists in time what is not stored when the store stalls', async () => {
    server.fault = ({ operation, key }) =>
      operation === 'PutObject' && key.endsWith('slow.dat.0') ? { kind: 'stall' } : undefined;
    const task = onS3('stall', `echo 1 > fast.dat; echo 1 > slow.dat; ${TELL}; ${UNTIL_GO}`);
    const asked = flush(await socketOf(task), '--timeout', '4s');
    expect(await asked.status).toBe(74);
    expect(asked.stderr()).toMatch(/1 file not stored within 4\.0 s: slow\.dat \(.*\)\n {2}try: /);
    expect(server.keys()).toContain('stall/fast.dat.0');
    killTree(task.pid);
  });

  it('returns 0 when the outage ends in time', async () => {
    let isDown = true;
    server.fault = () => (isDown && started ? { kind: 'answer', status: 503, code: 'SlowDown' } : undefined);
    let started = false;
    const task = onS3(
      'outage',
      `${TELL}; until [ -e start ]; do sleep 0.02; done; echo 1 > a.dat; ${UNTIL_GO}`,
    );
    const socket = await socketOf(task);
    started = true;
    fs.writeFileSync(place.at('start'), '');
    await until(() => fs.existsSync(place.at('a.dat')), 'the file');
    const asked = flush(socket, '--timeout', '50s');
    const short = flush(socket, '--timeout', '1s');
    expect(await short.status).toBe(74);
    isDown = false;
    expect(await asked.status, asked.stderr()).toBe(0);
    expect(server.keys()).toContain('outage/a.dat.0');
    go();
    expect(await task.status).toBe(0);
  });
});
