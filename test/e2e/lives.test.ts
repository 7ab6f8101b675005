// The lives of the three processes: whoever dies, what was closed is stored, and the task is left alone.
import { unstamped } from '../support/messages.ts';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  BIN,
  childrenOf,
  isAlive,
  noise,
  openPlace,
  program,
  sidecarOf,
  until,
  type Place,
  type Run,
} from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const sh = (script: string): string[] => ['sh', '-c', script];
const lastRecord = (): ReturnType<Place['records']>[number] | undefined => place.records().at(-1);

/** Kills the sidecar; another one is there when it resolves. */
async function replaceSidecar({ pid }: Run): Promise<void> {
  const first = sidecarOf(pid);
  if (first === undefined) throw new Error('there is no sidecar');
  process.kill(first, 'SIGKILL');
  await until(() => ![undefined, first].includes(sidecarOf(pid)), 'another sidecar');
}

it('a sidecar that is stopped holds up no run that was told to end: it is killed, and another one takes over', async () => {
  const task = 'trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done';
  const run = place.run(['-r', 'r', '--grace', '1s'], sh(task));
  await run.says('ready');
  process.kill(sidecarOf(run.pid) ?? 0, 'SIGSTOP');
  process.kill(run.pid, 'SIGTERM');
  await run.says('the sidecar died (it hung, and was killed)');
  expect(await run.status).toBeGreaterThan(0);
});

it('a sidecar that hangs at its start is reported, and holds up no run that is told to end', async () => {
  const hang = place.at('hang.cjs');
  const forEver = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)';
  fs.writeFileSync(hang, `if (process.argv[1]?.endsWith('sidecar.cjs')) ${forEver};`);
  const run = place.run(['-r', 'r', '--grace', '1s'], ['touch', 'r'], { NODE_OPTIONS: `--require=${hang}` });
  await run.says('the sidecar has not answered yet; 5 min 0 s after its start it is killed');
  expect(run.stderr()).toMatch(/\n {2}try: [^\n]*ulimit -u/);
  process.kill(run.pid, 'SIGTERM');
  expect(await run.status).toBe(75);
  expect(fs.existsSync(place.at('r'))).toBe(false);
});

describe('a sidecar that is killed', () => {
  it('after it has sent a checkpoint that no record names is replaced by one that gives it another key', async () => {
    const task = `echo a > a.chk; until ls "$S" | grep -q '^a.chk'; do sleep 0.02; done; echo sent
      until [ -e go ]; do sleep 0.02; done; echo b > b.chk`;
    const run = place.run(['-k', 'a.chk', '-k', 'b.chk'], sh(task), { S: place.store });
    await run.says('sent');
    const [first = ''] = place.keys();
    await replaceSidecar(run);
    await run.says('looked at again');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(0);
    const members = lastRecord()?.record.generations[0]?.members.map(({ key }) => key) ?? [];
    expect(members).toHaveLength(2);
    expect(members).not.toContain(first);
    expect(place.keys()).toEqual(members.toSorted());
  });

  it('is replaced by one that stores what can be read, where nothing of its own can be written any more', async () => {
    const task = `rm -r .capture/reclaim; echo > .capture/reclaim; echo one > r1; echo ready
      until [ -e go ]; do sleep 0.02; done; echo two > r2`;
    const run = place.run(['-r', 'r1', '-r', 'r2'], sh(task));
    await run.says('ready');
    await replaceSidecar(run);
    await run.says('looked at again');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.keys().toSorted()).toEqual(['r1.0', 'r2.0']);
    expect(run.stderr()).toContain('what an earlier start has left stays');
    expect(run.stderr()).toContain('local files stay');
  });

  it('in a shared work directory is replaced by one that knows its own task, not the one beside it', async () => {
    fs.writeFileSync(place.at('a.dat'), 'staged');
    const start = async (name: string): Promise<Run> => {
      const options = ['--shared-workdir', '--index', name, '-r', `${name}.dat`];
      const run = place.run(options, sh(`echo ${name} runs; until [ -e go ]; do sleep 0.02; done; exit 3`));
      await run.says(`${name} runs`);
      return run;
    };
    const a = await start('a');
    const b = await start('b');
    await replaceSidecar(a);
    await a.says('looked at again');
    fs.writeFileSync(place.at('go'), '');
    expect([await a.status, await b.status]).toEqual([3, 3]);
    // What was there before the task is not its work, and the task has failed.
    expect(place.keys()).toEqual([]);
  });

  it('while it pushes is replaced, and everything that was closed is stored', async () => {
    fs.writeFileSync(`${place.dir}/big`, noise(64 * 2 ** 20, 1));
    const run = place.run(
      ['-r', '*.dat', '-k', 'k.chk'],
      sh(
        'cp ../big big.dat; echo small > small.dat; echo ck > k.chk; echo closed; until [ -e go ]; do sleep 0.02; done; echo late > late.dat',
      ),
    );
    await run.says('closed');
    await replaceSidecar(run);
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status).toBe(0);
    expect(place.stored('big.dat.0').equals(fs.readFileSync(`${place.dir}/big`))).toBe(true);
    expect(place.text('small.dat.0')).toBe('small\n');
    expect(place.text('late.dat.0')).toBe('late\n');
    expect(lastRecord()?.name).toMatch(/^0001-\d+\.done$/);
    expect(lastRecord()?.record.generations[0]?.members).toHaveLength(1);
  });

  /** Waits without a child, which would end. */
  const PERL = (before: string): string[] => [
    'perl',
    '-e',
    `$| = 1; ${before}; open(F, '>', 'r.dat'); print F "whole"; close F; print "closed\n";
      select(undef, undef, undef, 0.02) until -e 'go'; exit 3`,
  ];

  /** The second sidecar of an attempt counts from a million of its own. */
  const PARTIAL = 'r.dat.0.partial-1.~1002000000~';

  it.each([
    ['while no process of the task has died: they are whole', '1', ['r.dat.0']],
    ['after a process of the task has died: it may have closed them', "system('true')", [PARTIAL]],
    [
      'while a process of the task is dying or dead',
      // All that it has open is closed: its end has begun.
      'pipe(R, W); if (!fork) { exit } close W; <R>',
      [PARTIAL],
    ],
  ])('is replaced by one that finds files closed %s', async (_, before, stored) => {
    const run = place.run(['-r', 'r.dat'], PERL(before));
    await run.says('closed');
    await replaceSidecar(run);
    await run.says('looked at again');
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(3);
    expect(place.keys()).toEqual(stored);
  });

  it('is replaced by one that counts what both have stored', async () => {
    const task = `n=0; for step in one two; do
        for i in 1 2; do n=$((n + 1)); echo $n > r.$n; echo $n > k; "${BIN}" flush || exit 9; done
        echo step $step; until [ -e $step ]; do sleep 0.02; done
      done`;
    const run = place.run(['-r', 'r.*', '-k', 'k'], sh(task));
    await run.says('step one');
    await replaceSidecar(run);
    await run.says('looked at again');
    // The new one does not know what its checkpoint holds: it stores that set once more.
    await until(() => lastRecord()?.record.generations[0]?.generation === 1003, 'the set that was there');
    fs.writeFileSync(place.at('one'), '');
    await run.says('step two');
    fs.writeFileSync(place.at('two'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).toContain('stored 4 results (8 B); 5 checkpoints; 5 local files deleted here');
  });

  it('leaves results that its replacement knows to be of the same task: none is kept beside the newer one', async () => {
    const run = place.run(
      ['-r', 'r.dat'],
      sh('echo one > r.dat; until [ -e go ]; do sleep 0.02; done; echo two > r.dat'),
    );
    await until(() => place.keys().includes('r.dat.0'), 'the first push, which no record names yet');
    await replaceSidecar(run);
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.keys()).toEqual(['r.dat.0']);
    expect(place.text('r.dat.0')).toBe('two\n');
    expect(run.stderr()).not.toContain('kept as');
  });

  it('after it reclaimed a result does not let its replacement replace that one silently', async () => {
    const run = place.run(
      ['-r', 'r.dat', '--reclaim', 'now'],
      sh('echo one > r.dat; until [ -e go ]; do sleep 0.02; done; echo two >> r.dat'),
    );
    await until(() => place.keys().includes('r.dat.0') && !fs.existsSync(place.at('r.dat')), 'the reclaim');
    await replaceSidecar(run);
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.text('r.dat.0')).toBe('two\n');
    expect(place.text('r.dat.0.~1~')).toBe('one\n');
    expect(run.stderr()).toContain('kept as r.dat.0.~1~');
  });

  it('again and again does not disturb the task', async () => {
    const run = place.run(
      ['-r', 'r.dat'],
      sh('until [ -e go ]; do sleep 0.02; done; echo data > r.dat; exit 5'),
    );
    await until(() => sidecarOf(run.pid) !== undefined && childrenOf(run.pid).length > 1, 'the task');
    for (let n = 0; n < 3; n += 1) await replaceSidecar(run);
    fs.writeFileSync(place.at('go'), '');
    expect(await run.status).toBe(5);
  });
});

describe('a launcher that is killed', () => {
  it('before the start has ended leaves no sidecar that waits for a store', async () => {
    const silent = net.createServer(() => undefined).listen(0, '127.0.0.1');
    try {
      await once(silent, 'listening');
      const { port } = silent.address() as net.AddressInfo;
      const keys = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', AWS_REGION: 'us-east-1' };
      const asked = once(silent, 'connection');
      const env = { ...keys, AWS_ENDPOINT_URL: `http://127.0.0.1:${port}` };
      const run = place.exec([BIN, '--to', 's3://bucket/p', '-r', 'r.dat', '--', 'true'], env);
      await asked;
      const sidecar = sidecarOf(run.pid) ?? 0;
      expect(isAlive(sidecar)).toBe(true);
      process.kill(run.pid, 'SIGKILL');
      await until(() => !isAlive(sidecar), 'the end of the sidecar');
    } finally {
      silent.close();
    }
  });

  it('leaves a sidecar that waits for the task, drains, and says so', async () => {
    const run = place.run(
      ['-r', '*.dat'],
      sh('echo $$; echo one > one.dat; until [ -e go ]; do sleep 0.02; done; echo two > two.dat'),
    );
    await run.says(/\d+\n/);
    const task = Number(run.stdout());
    const sidecar = sidecarOf(run.pid) ?? 0;
    process.kill(run.pid, 'SIGKILL');
    await until(() => place.keys().includes('one.dat.0'), 'what was closed before');
    expect(isAlive(task)).toBe(true);
    expect(isAlive(sidecar)).toBe(true);
    fs.writeFileSync(place.at('go'), '');
    await until(() => !isAlive(sidecar), 'the end of the sidecar');
    expect(lastRecord()?.record.kind).toBe('failed');
    expect(lastRecord()?.record.end?.reason).toBe('launcher lost');
    const all = place.keys().map((key) => place.text(key));
    expect(all.toSorted()).toEqual(['one\n', 'two\n']);
    const status = place.capture(['status', place.store, '0']);
    await status.status;
    expect(status.stdout()).toContain('failed: launcher lost: capture itself was killed');
    expect(status.stdout()).not.toContain('exited 70');
    expect(status.stdout()).toContain('no last lines of its output: the launcher was killed before');
  });

  it('as soon as it has started the task leaves a sidecar that does the same', async () => {
    const kill = path.join(place.dir, '../kill.cjs');
    // Before it can tell the sidecar which process the task is.
    fs.writeFileSync(
      kill,
      `const processes = require('node:child_process');
      const { spawn } = processes;
      processes.spawn = (...args) => {
        const child = spawn(...args);
        if (/\\bsh$/.test(args[0])) process.kill(process.pid, 'SIGKILL');
        return child;
      };
      require('node:module').syncBuiltinESMExports();`,
    );
    const run = place.run(['-r', 'r.dat'], sh('sleep 0.5; echo 1 > r.dat'), {
      NODE_OPTIONS: `--require=${kill}`,
    });
    await run.status;
    expect(run.stderr()).toMatch(/the launcher is gone[^]*stored 1 result/);
    expect(place.text('r.dat.0')).toBe('1\n');
  });
});

describe('a task that leaves a process behind', () => {
  it('which still writes a declared file is waited for', async () => {
    const run = place.run(['-r', 'r.dat', '--grace', '60s'], [program('leave-writer.sh'), '1']);
    expect(await run.status).toBe(0);
    expect(place.text('r.dat.0')).toBe('begun\nfinished\n');
  });

  it('which writes for longer than the grace is stopped, and what it wrote is not called whole', async () => {
    const run = place.run(['-r', 'r.dat', '--grace', '4s'], [program('leave-writer.sh'), '600']);
    await run.status;
    expect(place.records().at(-1)?.record.kind).not.toBe('started');
    expect(
      place
        .keys()
        .every(
          (key) => !key.startsWith('r.dat.0') || key.includes('partial') || place.text(key) === 'begun\n',
        ),
    ).toBe(true);
  });
});

describe('one work directory', () => {
  it('takes one capture at a time', async () => {
    const first = place.run(['-r', 'r.dat'], sh('echo up; until [ -e go ]; do sleep 0.02; done'));
    await first.says('up');
    const second = place.run(['-r', 'r.dat'], sh('echo second'));
    expect(await second.status).toBe(64);
    expect(second.stdout()).toBe('');
    expect(second.stderr()).toMatch(/another capture is at work[^]*\n {2}try: /);
    fs.writeFileSync(place.at('go'), '');
    expect(await first.status).toBe(0);
  });
});

describe('capture watch', () => {
  it('stores what is closed beside it, and ends with an ended record on TERM', async () => {
    const run = place.capture([
      'watch',
      '--to',
      place.store,
      '-r',
      '*.dat',
      '-k',
      'k.chk',
      '--task-name',
      'pod',
    ]);
    await run.says('attempt 1');
    fs.writeFileSync(place.at('a.dat'), 'a');
    fs.writeFileSync(place.at('k.chk'), 'k');
    await until(() => place.keys().length === 2, 'both files');
    fs.writeFileSync(place.at('b.dat'), 'b');
    // So long before the signal that the task cannot have died of it.
    const atMs = Date.now();
    await until(() => Date.now() - atMs > 100, 'the time of a signal on its way');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status).toBe(0);
    expect(place.text('b.dat.0')).toBe('b');
    expect(lastRecord()?.record.kind).toBe('ended');
  });
});

describe('capture restore', () => {
  it('brings checkpoint and inputs into the work directory, and claims nothing', async () => {
    expect(await place.run(['-k', 'k.chk', '--task-name', 't'], sh('echo ck > k.chk')).status).toBe(0);
    fs.writeFileSync(`${place.store}/in.dat`, 'in');
    const records = place.records().length;
    place.freshWork();
    const run = place.capture([
      'restore',
      '--to',
      place.store,
      '-k',
      'k.chk',
      '-i',
      'in.dat',
      '--task-name',
      't',
    ]);
    expect(await run.status).toBe(0);
    expect(fs.readFileSync(place.at('k.chk'), 'utf8')).toBe('ck\n');
    expect(fs.readFileSync(place.at('in.dat'), 'utf8')).toBe('in');
    expect(place.records()).toHaveLength(records);
  });

  it('brings a result without the checkpoint, if no option names that', async () => {
    const both = ['-k', 'k.chk', '-r', 'r.dat', '--task-name', 't'];
    expect(await place.run(both, sh('echo ck > k.chk; echo r > r.dat')).status).toBe(0);
    place.freshWork();
    const named = ['-r', 'r.dat', '-i', 'r.dat', '--task-name', 't'];
    const run = place.capture(['restore', '--to', place.store, ...named]);
    expect(await run.status).toBe(0);
    expect(run.stderr()).toContain('the checkpoint stays in the store: no --checkpoints names its files');
    expect(fs.readFileSync(place.at('r.dat'), 'utf8')).toBe('r\n');
    expect(fs.existsSync(place.at('k.chk'))).toBe(false);
  });

  it('moves a local checkpoint that differs aside and says which is newer', async () => {
    expect(await place.run(['-k', 'k.chk', '--task-name', 't'], sh('echo stored > k.chk')).status).toBe(0);
    place.freshWork();
    fs.writeFileSync(place.at('k.chk'), 'local');
    const run = place.capture(['restore', '--to', place.store, '-k', 'k.chk', '--task-name', 't']);
    expect(await run.status).toBe(0);
    expect(fs.readFileSync(place.at('k.chk'), 'utf8')).toBe('stored\n');
    expect(run.stderr()).toContain('the newer local one, which differs, is now .capture/aside/1-k.chk');
    expect(fs.readFileSync(place.at('.capture/aside/1-k.chk'), 'utf8')).toBe('local');
  });

  it('keeps a newer local checkpoint with --on-local newest', async () => {
    expect(await place.run(['-k', 'k.chk', '--task-name', 't'], sh('echo stored > k.chk')).status).toBe(0);
    place.freshWork();
    fs.writeFileSync(place.at('k.chk'), 'local');
    const run = place.capture([
      'restore',
      '--to',
      place.store,
      '-k',
      'k.chk',
      '--task-name',
      't',
      '--on-local',
      'newest',
    ]);
    expect(await run.status).toBe(0);
    expect(fs.readFileSync(place.at('k.chk'), 'utf8')).toBe('local');
  });
});

describe('--dry-run', () => {
  it('says who this would be and what matches, and writes nothing', async () => {
    fs.writeFileSync(place.at('r.dat'), '12345');
    const run = place.run(['-r', 'r.dat', '--index', '3', '--dry-run'], sh('echo started'));
    expect(await run.status).toBe(0);
    expect(run.stdout()).toContain('task sh, index 3, attempt 1');
    expect(run.stdout()).toContain('result r.dat (5 B) -> r.dat.3[.zst]');
    expect(run.stdout()).not.toContain('started\n');
    expect(fs.existsSync(place.store)).toBe(false);
    expect(fs.existsSync(place.at('.capture'))).toBe(false);
  });

  it.each([
    ['127, without the task', ['-r', 'r'], ['no-such-program'], 127],
    ['126, when it cannot be executed', ['-r', 'r'], ['./no-program'], 126],
    ['66, without an input', ['-i', 'in.dat', '-r', 'r'], sh('echo started'), 66],
  ])('ends as the run would: %s', async (_, options, task, status) => {
    fs.writeFileSync(place.at('no-program'), 'text', { mode: 0o600 });
    const dry = place.run([...options, '--dry-run'], task);
    expect(await dry.status, dry.stderr()).toBe(status);
    const real = place.run(options, task);
    expect(await real.status).toBe(status);
    expect(dry.stderr()).toContain('try: ');
    expect(unstamped(real.stderr())).toContain(unstamped(dry.stderr()));
  });

  it('says with --skip-done that the index is done, without the input that a run would need', async () => {
    const options = ['-r', 'r.dat', '--skip-done'];
    expect(await place.run(options, sh('echo 1 > r.dat')).status).toBe(0);
    const dry = place.run([...options, '-i', 'in.dat', '--dry-run'], sh('echo started'));
    expect(await dry.status, dry.stderr()).toBe(0);
    expect(dry.stdout()).toBe('done already in attempt 1 (--skip-done)\n');
  });

  it('says which inputs would be fetched', async () => {
    fs.mkdirSync(place.store);
    fs.writeFileSync(`${place.store}/in.dat`, 'x');
    const run = place.run(['-i', 'in.dat', '--dry-run'], sh('echo started'));
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toContain(`fetch: input in.dat from file://${place.store}, in.dat\n`);
    expect(fs.existsSync(place.at('in.dat'))).toBe(false);
  });
});
