// `capture watch --exit-file`: the task's container says how it ended, and the last record and the exit status are
// those that the launcher would give.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NOBODY, programForAll, tmpdirForAll } from '../support/other-user.ts';
import { openPod, told, type Pod } from './pod.ts';
import { openS3Place } from './s3-place.ts';
import { BIN, openPlace, until, type Place, type Run } from './support.ts';

const EXIT_FILE = ['--exit-file', 'status'];

let place: Place;
let pod: Pod;
beforeEach(() => {
  place = openPlace();
  pod = openPod(place, ['-r', 'r.dat', '-k', 'k.chk']);
});
afterEach(() => place.close());

const write = (name: string, text: string): void => fs.writeFileSync(place.at(name), text);
/** As a task's shell does it in one step. */
const say = (text: string): void => {
  write('status.new', text);
  fs.renameSync(place.at('status.new'), place.at('status'));
};
const watch = (...options: string[]): Promise<Run> => pod.watch([...EXIT_FILE, ...options]);

/** Is stored so long before a signal that the task cannot have died of it. */
async function storedBefore(path: string, text: string): Promise<void> {
  write(path, text);
  await until(() => place.keys().includes(`${path}.0`), 'the result');
  const atMs = Date.now();
  await until(() => Date.now() - atMs > 200, 'the time of a signal on its way');
}

/** Nobody knows yet whether the close is a death's. */
async function staged(): Promise<void> {
  await until(() => place.keys().includes('r.dat.0.partial-1'), 'the staged result');
}

describe('what the exit file says', () => {
  it.each([
    ['0\n', [], 0, 'done'],
    ['3\n', [], 3, 'failed'],
    ['143\n', [], 143, 'failed'],
    [' 7 \n', [], 7, 'failed'],
    ['85\n', ['--again-status', '85'], 75, 'preempted'],
    ['0\n', ['--done-when', 'other.dat'], 75, 'preempted'],
  ])('%j with %j is exit status %i and the record %s', async (text, options, status, kind) => {
    const run = await watch(...options);
    write('r.dat', 'result');
    say(text);
    expect(await run.status).toBe(status);
    expect(told(place).at(-1)).toBe(`1 ${kind}`);
  });

  it('is exit 64, once everything is stored, if it is no exit status', async () => {
    // A text may become one as it is written. So each takes ten seconds, and all are tried at once.
    const texts = ['done\n', '256\n', '-1\n', '0 1\n', `${'0'.repeat(5000)}\n`];
    await Promise.all(
      texts.map(async (text) => {
        const one = openPlace();
        try {
          const run = await openPod(one, ['-r', 'r.dat']).watch(EXIT_FILE);
          fs.writeFileSync(one.at('r.dat'), 'result');
          await until(() => one.keys().includes('r.dat.0'), 'the result');
          fs.writeFileSync(one.at('status'), text);
          expect(await run.status, text).toBe(64);
          expect(run.stderr()).toContain('status (--exit-file) holds no exit status of 0 to 255');
          expect(run.stderr()).toContain('try: let the task');
          expect(told(one).at(-1)).toBe('1 failed');
          expect(one.records().at(-1)?.record.end?.reason).toContain('holds no exit status');
        } finally {
          one.close();
        }
      }),
    );
  });

  it('is never read through a link, nor from a FIFO, whose writer is not let go on', async () => {
    fs.writeFileSync(`${place.dir}/secret`, '0\n');
    fs.symlinkSync(`${place.dir}/secret`, place.at('status'));
    expect(await (await watch()).status).toBe(64);
    place.freshWork();
    execFileSync('mkfifo', [place.at('status')]);
    const writer = place.exec(['sh', '-c', 'echo 0 > status; echo went on']);
    const run = await watch();
    expect(await run.status).toBe(64);
    expect(run.stderr()).toContain('no regular file');
    expect(writer.stdout()).toBe('');
  });

  it('counts when it is whole: made empty, written later, without the end of a line', async () => {
    const run = await watch();
    write('status', '');
    write('r.dat', 'result');
    await until(() => place.keys().includes('r.dat.0'), 'the result');
    write('status', '0');
    expect(await run.status).toBe(0);
    expect(told(place).at(-1)).toBe('1 done');
  });

  it('counts also when it was there first: a task can be quicker than its sidecar', async () => {
    write('r.dat', 'result');
    say('0\n');
    expect(await (await watch()).status).toBe(0);
    expect(place.text('r.dat.0')).toBe('result');
    expect(told(place).at(-1)).toBe('1 done');
  });

  it('is 74 where the task ended well and something is not stored', async () => {
    const run = await watch('--drain-timeout', '1s');
    const open = fs.openSync(place.at('r.dat'), 'w');
    fs.writeSync(open, 'half');
    say('0\n');
    expect(await run.status).toBe(74);
    fs.closeSync(open);
    expect(run.stderr()).toContain('r.dat');
    expect(told(place).at(-1)).toBe('1 failed');
  });

  it('is said again by a container that starts once more, and nothing is recorded twice', async () => {
    const run = await watch();
    write('r.dat', 'result');
    say('3\n');
    expect(await run.status).toBe(3);
    const before = told(place);
    const again = await watch();
    expect(await again.status).toBe(3);
    expect(again.stderr()).toContain('attempt 1 has ended (failed): nothing is left to watch');
    expect(told(place)).toEqual(before);
  });

  it('is an old one when the attempt is handed over: restore removes it', async () => {
    say('0\n');
    await pod.handOff(EXIT_FILE);
    expect(fs.existsSync(place.at('status'))).toBe(false);
    const run = await watch();
    write('r.dat', 'result');
    say('0\n');
    expect(await run.status).toBe(0);
    expect(place.text('r.dat.0')).toBe('result');
  });

  it('is an old one that cannot be removed: then the attempt is not handed over', async () => {
    fs.mkdirSync(place.at('status'));
    const run = await pod.handOff(EXIT_FILE);
    expect(await run.status).toBe(64);
    expect(run.stderr()).toMatch(
      /cannot remove the old .*status \(--exit-file\)[^]*the watch would end at once/,
    );
  });

  it.runIf(process.getuid?.() === 0)(
    'is none while it is of another user, in a sticky directory',
    async () => {
      const shared = `${place.dir}/shared`;
      const file = `${shared}/status`;
      fs.mkdirSync(shared);
      fs.chmodSync(shared, 0o1777);
      fs.writeFileSync(file, '5\n');
      fs.chownSync(file, NOBODY, NOBODY);
      const handed = await pod.handOff(['--exit-file', file]);
      expect(await handed.status, handed.stderr()).toBe(0);
      const run = await pod.watch(['--exit-file', file]);
      expect(run.stderr()).toContain(`user ${NOBODY} has made it`);
      write('r.dat', 'result');
      fs.unlinkSync(file);
      fs.writeFileSync(file, '0\n');
      expect(await run.status).toBe(0);
      expect(place.text('r.dat.0')).toBe('result');
    },
  );

  it('cannot stand in a directory that is not there', async () => {
    const run = pod.begin(['--exit-file', 'no/status']);
    expect(await run.status).toBe(64);
    expect(run.stderr()).toMatch(/cannot wait for .*no\/status \(--exit-file\): no such directory/);
  });
});

describe.runIf(process.getuid?.() === 0)('a watch that is another user than the task', () => {
  const asNobody = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
  let shared: Place;
  beforeEach(() => {
    shared = openPlace({ below: tmpdirForAll() });
    fs.mkdirSync(shared.store);
    for (const dir of [shared.dir, shared.work, shared.store]) fs.chmodSync(dir, 0o777);
  });
  afterEach(() => shared.close());

  /** The test is the task, as root. */
  async function watchShared(task: () => void): Promise<Run> {
    const words = ['watch', '-r', 'step*/*', '-r', '*.dat', '--to', shared.store, '--exit-file', 'status'];
    const run = shared.exec([...asNobody, programForAll(BIN, shared.dir), ...words, '--task-name', 'pod']);
    await run.says('task pod');
    task();
    fs.writeFileSync(shared.at('open.dat'), 'open to all');
    fs.writeFileSync(shared.at('status'), '0\n');
    await run.status;
    return run;
  }
  const makeShut = (dir: string, file: string): void => {
    fs.mkdirSync(shared.at(dir), { mode: 0o700, recursive: true });
    fs.writeFileSync(shared.at(`${dir}/${file}`), 'precious');
  };
  const left = (): readonly unknown[] | undefined => shared.records().at(-1)?.record.left;

  it.each<[string, () => void, () => void, string, RegExp]>([
    ['a directory of its user', () => undefined, () => makeShut('step2', 'b'), 'step2', /EACCES/],
    [
      'a directory that was shut before, in which it makes a file',
      () => makeShut('step2', 'a'),
      () => makeShut('step2', 'b'),
      'step2',
      /EACCES/,
    ],
    [
      'a file of its user',
      () => undefined,
      () => fs.writeFileSync(shared.at('b.dat'), 'precious', { mode: 0o600 }),
      'b.dat',
      /permission denied/,
    ],
  ])('leaves what the task closes in %s: 74, and named', async (_, before, task, path, why) => {
    before();
    const run = await watchShared(task);
    expect(await run.status, run.stderr()).toBe(74);
    expect(left()).toEqual([{ path, why: expect.stringMatching(why) }]);
    expect(shared.keys()).toEqual(['open.dat.0']);
  });

  it('leaves nothing behind in a directory that was shut before, and stays as it was', async () => {
    makeShut('step-lost+found', 'others');
    const run = await watchShared(() => undefined);
    expect(await run.status, run.stderr()).toBe(0);
    expect(left()).toEqual([]);
  });
});

describe('SIGTERM for both containers at once', () => {
  it('waits for what the task still does and says', async () => {
    const run = await watch('--grace', '60s');
    process.kill(run.pid, 'SIGTERM');
    await run.says('SIGTERM: waiting for the end of the task, for at most 40.0 s');
    write('k.chk', 'the last checkpoint');
    say('143\n');
    expect(await run.status).toBe(75);
    expect(told(place).at(-1)).toBe('1 preempted');
    expect(place.text('k.chk.pod.0.1-1')).toBe('the last checkpoint');
  });

  it('is a preemption also when the task has said first that it was told', async () => {
    write('r.dat', 'result');
    say('143\n');
    const run = await watch('--grace', '60s');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status).toBe(75);
    expect(told(place).at(-1)).toBe('1 preempted');
  });

  it('is none when the task failed by itself: a native sidecar is always told', async () => {
    write('r.dat', 'result');
    say('3\n');
    const run = await watch('--grace', '60s');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status).toBe(3);
    expect(told(place).at(-1)).toBe('1 failed');
  });

  it('is not waited for longer than the task has of the grace', async () => {
    const run = await watch('--grace', '3s');
    await storedBefore('r.dat', 'result');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status).toBe(0);
    expect(told(place).at(-1)).toBe('1 ended');
    expect(place.text('r.dat.0')).toBe('result');
  });

  it('says nothing of how the task ended: what is closed after it replaces no good result', async () => {
    const run = await watch('--grace', '10m');
    await storedBefore('r.dat', 'result');
    process.kill(run.pid, 'SIGTERM');
    await run.says('waiting for the end of the task');
    write('r.dat', 'half');
    process.kill(run.pid, 'SIGINT');
    expect(await run.status).toBe(74);
    expect(told(place).at(-1)).toBe('1 ended');
    expect(place.text('r.dat.0')).toBe('result');
    const beside = place.keys().filter((key) => key.includes('.partial-1'));
    expect(beside.map((key) => place.text(key))).toEqual(['half']);
    expect(run.stderr()).toContain('nobody said how the task ended');
  });

  it('may come because the task was killed: what it closed last before it, and wrote no more, is not believed', async () => {
    const run = await watch('--grace', '10m');
    write('r.dat', 'whole, or half');
    await staged();
    process.kill(run.pid, 'SIGTERM');
    await run.says('waiting for the end of the task');
    process.kill(run.pid, 'SIGINT');
    expect(await run.status).toBe(74);
    expect(place.keys()).toEqual(['r.dat.0.partial-1']);
  });

  it('finds a task that lived on: what it closed and has begun to write again is whole', async () => {
    const run = await watch('--grace', '10m');
    write('r.dat', 'whole');
    await staged();
    const closedAtMs = Date.now();
    await until(() => Date.now() - closedAtMs > 1500, 'longer than a container takes to die');
    const again = fs.openSync(place.at('r.dat'), 'w');
    fs.writeSync(again, 'half');
    process.kill(run.pid, 'SIGTERM');
    await run.says('waiting for the end of the task');
    fs.closeSync(again);
    process.kill(run.pid, 'SIGINT');
    expect(await run.status).toBe(74);
    expect(place.text('r.dat.0')).toBe('whole');
    const beside = place.keys().filter((key) => key.includes('.partial-1'));
    expect(beside.map((key) => place.text(key))).toEqual(['half']);
  });

  it('is not waited for when a second one comes', async () => {
    const run = await watch('--grace', '10m');
    await storedBefore('r.dat', 'result');
    process.kill(run.pid, 'SIGTERM');
    await run.says('waiting for the end of the task');
    process.kill(run.pid, 'SIGINT');
    expect(await run.status).toBe(0);
    expect(told(place).at(-1)).toBe('1 ended');
  });

  it('comes after the word of the task and shortens the drain', async () => {
    const s3 = await openS3Place();
    try {
      const { server, place: there } = s3;
      const to = ['--to', `s3://${server.bucket}/run`, '--path-style', '--control', `${there.dir}/control`];
      const declared = ['-r', 'r.dat', '--exit-file', 'status', '--grace', '3s'];
      const run = there.capture(['watch', ...to, ...declared], server.env);
      await run.says('task task');
      server.fault = () => ({ kind: 'answer', status: 503, code: 'SlowDown' });
      fs.writeFileSync(there.at('r.dat'), 'result');
      fs.writeFileSync(there.at('status'), '0\n');
      // Now it drains, for up to an hour.
      await until(() => !fs.existsSync(`${there.dir}/control`), 'the drain');
      process.kill(run.pid, 'SIGTERM');
      expect(await run.status).toBe(74);
      expect(run.stderr()).toMatch(/NOT stored.*r\.dat/);
    } finally {
      await s3.close();
    }
  });
});

describe('without an exit file, what an earlier attempt has left', () => {
  const end = async (run: Run): Promise<number> => {
    process.kill(run.pid, 'SIGTERM');
    return run.status;
  };

  it('is named, as nobody has closed it again, and deleted once somebody has', async () => {
    const dies = 'exec >r.dat; echo half; kill -KILL $$';
    const options = ['--to', place.store, '--task-name', 'pod', '-r', 'r.dat', '--', 'sh', '-c', dies];
    expect(await place.capture(options).status).toBe(137);
    expect(place.keys()).toEqual(['r.dat.0.partial-1']);
    fs.rmSync(place.at('r.dat'));
    const second = await pod.watch();
    expect(await end(second), second.stderr()).toBe(74);
    expect(second.stderr()).toMatch(/NOT stored: r\.dat .*r\.dat\.0\.partial-1/);
    expect(told(place).at(-1)).toBe('2 ended');
    const third = await pod.watch();
    write('r.dat', 'whole');
    expect(await place.exec([BIN, 'flush', '--control', pod.control]).status).toBe(0);
    expect(await end(third), third.stderr()).toBe(0);
    expect(place.keys()).toEqual(['r.dat.0']);
  });
});

describe('SIGTERM before anything is watched', () => {
  it.each([
    ['watch', ['watch', '--grace', '1s']],
    ['restore', ['restore']],
    ['restore --handoff', ['restore', '--handoff']],
    ['watch --dry-run', ['watch', '--dry-run']],
  ])('ends %s with 143', async (_, command) => {
    // A store that takes every request and answers none.
    const server = net.createServer((socket) => socket.on('error', () => undefined));
    const sockets = new Set<net.Socket>();
    server.on('connection', (socket) => sockets.add(socket));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    try {
      const { port } = server.address() as net.AddressInfo;
      const asked = once(server, 'connection');
      const run = place.capture([...command, '--to', 's3://bucket/p', '--path-style', '-k', 'k.chk'], {
        AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}`,
        AWS_REGION: 'eu-west-1',
        AWS_ACCESS_KEY_ID: 'id',
        AWS_SECRET_ACCESS_KEY: 'key',
      });
      await asked;
      process.kill(run.pid, 'SIGTERM');
      expect(await run.status).toBe(143);
      expect(run.stderr()).toContain('SIGTERM');
    } finally {
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  });
});
