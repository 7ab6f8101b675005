// Results that were still open, or not whole, when everything was killed: a resume goes on behind them, and no later
// attempt may end as if nothing were missing.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CaptureRecord } from '../../src/model/format/records.ts';
import { openS3Place } from './s3-place.ts';
import { childrenOf, killTree, openPlace, sidecarOf, until, type Place, type Run } from './support.ts';

interface Ground {
  run(options: readonly string[], script: string): Run;
  records(): readonly { readonly record: CaptureRecord }[];
  keys(): readonly string[];
  text(key: string): string;
  freshWork(): void;
  /** A path in the work directory. */
  at(name: string): string;
  close(): Promise<void> | void;
}

const GROUNDS: readonly [string, () => Promise<Ground>][] = [
  [
    'a directory',
    async () => {
      const place = openPlace();
      const run = (options: readonly string[], script: string): Run =>
        place.run([...options, '--task-name', 't'], ['sh', '-c', script], { S: place.store });
      return {
        run,
        records: place.records,
        keys: place.keys,
        text: place.text,
        freshWork: place.freshWork,
        at: place.at,
        close: place.close,
      };
    },
  ],
  [
    'S3',
    async () => {
      const s3 = await openS3Place();
      return {
        run: (options, script) => s3.run([...options, '--task-name', 't'], script),
        records: s3.records,
        keys: s3.keys,
        text: s3.text,
        freshWork: s3.place.freshWork,
        at: s3.place.at,
        close: s3.close,
      };
    },
  ],
];

/** A process that dies in the middle of a write. */
const DIES = (name: string): string => `sh -c 'exec 3>${name}; echo half >&3; kill -KILL $$'`;
/** And a shell above it that says so. */
const DEATH = (name: string): string => `${DIES(name)}; exit 1`;
/** A file that is open and not written at its end. */
const RANDOM = 'exec 3>traj.dat 4>traj.dat; echo a long line that is there >&4';

describe.each(GROUNDS)('in %s', (_name, open) => {
  let ground: Ground;
  beforeEach(async () => {
    ground = await open();
  });
  afterEach(() => ground.close());

  const last = (): CaptureRecord | undefined => ground.records().at(-1)?.record;
  const end = async (options: readonly string[], script: string, status = 0): Promise<Run> => {
    const run = ground.run(options, script);
    expect(await run.status, run.stderr()).toBe(status);
    return run;
  };

  it('a result that was open when all was killed is named at the next start, and at the end: the index is not done', async () => {
    const options = ['-r', 'traj.dat', '-k', 'k.chk'];
    const first = ground.run(options, `${RANDOM}; echo one >&3; echo 1 > k.chk; sleep 600`);
    await until(() => last()?.generations.length === 1, 'the checkpoint');
    expect(last()?.generations[0]?.behind).toEqual([
      { path: 'traj.dat', open: true, size: 26, mtimeNs: expect.any(String), over: [] },
    ]);
    killTree(first.pid);
    await first.status;
    ground.freshWork();
    const second = ground.run(options, `${RANDOM}; echo two >&3; echo 2 > k.chk; sleep 600`);
    await second.says('what attempt 1 had written to these results before checkpoint 1-1 is not stored');
    expect(second.stderr()).toContain('will not write it again: traj.dat (open)\n  try: ');
    await until(() => last()?.generations[0]?.attempt === 2, 'a checkpoint of the second attempt');
    killTree(second.pid);
    await second.status;
    ground.freshWork();
    const third = await end(options, 'exec 3>>traj.dat; echo three >&3', 74);
    expect(third.stderr()).toContain('is stored nowhere: traj.dat (open)');
    expect(third.stderr()).toContain('NOT stored: traj.dat (what attempt 1 had written to it is lost');
    expect(last()).toMatchObject({ kind: 'failed', end: { code: 0, status: 74 } });
    expect(last()?.left.map(({ path }) => path)).toEqual(['traj.dat']);
  });

  it('a result that was open when its task died is named with the object that the death left', async () => {
    const options = ['-r', 'traj.dat', '-k', 'k.chk'];
    const first = ground.run(options, `${RANDOM}; echo one >&3; echo 1 > k.chk; sleep 600`);
    await until(() => last()?.generations.length === 1, 'the checkpoint');
    for (const pid of childrenOf(first.pid)) if (pid !== sidecarOf(first.pid)) killTree(pid);
    expect(await first.status, first.stderr()).toBe(137);
    const partial = ground.keys().find((key) => key.startsWith('traj.dat.0.partial-1'));
    ground.freshWork();
    const second = await end(options, `${RANDOM}; echo two >&3; echo 2 > k.chk`, 74);
    expect(second.stderr()).toContain(
      `is stored only in a state that may be half-written, and the task will not write it again: traj.dat (open): ${partial}`,
    );
    expect(second.stderr()).toContain(
      `only in a state that may be half-written: traj.dat (open): ${partial}\n`,
    );
    expect(second.stderr()).not.toMatch(/is not stored, and|stored nowhere|is lost/);
    expect(last()?.left).toEqual([
      { path: 'traj.dat', why: expect.stringContaining(`is only in ${partial}`) },
    ]);
    expect(ground.text(`${partial}`)).toBe('one\nng line that is there\n');
  });

  it('a result that is open and only appended to comes back with the checkpoint, and ends whole', async () => {
    const options = ['-r', 'traj.dat', '-k', 'k.chk'];
    const script = (n: number): string => `exec 3>>traj.dat; echo ${n} >&3; echo ${n} > k.chk; sleep 600`;
    for (const n of [1, 2]) {
      const run = ground.run(options, script(n));
      await until(() => last()?.generations[0]?.attempt === n, `the checkpoint of attempt ${n}`);
      const [companion] = last()?.generations[0]?.companions ?? [];
      expect(companion).toMatchObject({ path: 'traj.dat', size: 2 * n, result: true });
      killTree(run.pid);
      await run.status;
      expect(run.stderr()).not.toMatch(/will not write it again/);
      ground.freshWork();
    }
    const third = await end(options, 'exec 3>>traj.dat; echo 3 >&3');
    expect(third.stderr()).not.toMatch(/will not write it again|NOT stored/);
    expect(ground.text('traj.dat.0')).toBe('1\n2\n3\n');
    expect(last()?.left).toEqual([]);
  });

  it('what a resumed attempt appended, whose death nobody saw coming, comes back with its checkpoint, or is named and kept', async () => {
    const options = ['-r', 'traj.dat', '-k', 'k.chk'];
    const script = (n: number, then: string): string =>
      `exec 3>>traj.dat; echo ${n} >&3; echo ${n} > k.tmp; mv k.tmp k.chk; ${then}`;
    const first = ground.run(options, script(1, 'sleep 600'));
    await until(() => last()?.generations[0]?.attempt === 1, 'the checkpoint');
    killTree(first.pid);
    await first.status;
    ground.freshWork();
    await end(options, script(2, 'kill -KILL $$'), 137);
    ground.freshWork();
    const third = ground.run(options, 'exec 3>>traj.dat; echo 3 >&3');
    const status = await third.status;
    const partials = ground.keys().filter((key) => key.includes('partial'));
    // On a busy machine, the set may be made after the death, and before capture hears of it.
    if (status === 74) {
      expect(third.stderr()).toMatch(/NOT stored: traj\.dat .*partial-2/);
      expect(partials.map((key) => ground.text(key))).toEqual(['1\n2\n']);
      return;
    }
    expect(status, third.stderr()).toBe(0);
    expect(third.stderr()).not.toMatch(/will not write it again|NOT stored/);
    expect(ground.text('traj.dat.0')).toBe('1\n2\n3\n');
    expect(partials).toEqual([]);
  });

  it('a result that was open at the checkpoint, closed by a death that nobody saw coming, is named and kept', async () => {
    const options = ['-r', '*.dat', '-k', 'k.chk'];
    const first = ground.run(
      options,
      'head -c 3000000 /dev/urandom > k.tmp; echo > ready; until [ -e go ]; do sleep 0.01; done; exec 3>traj.dat; echo 1 >&3; mv k.tmp k.chk; kill -KILL $$',
    );
    await until(() => fs.existsSync(ground.at('ready')), 'the task');
    const sidecar = sidecarOf(first.pid) ?? 0;
    process.kill(sidecar, 'SIGSTOP');
    fs.writeFileSync(ground.at('go'), '');
    await until(() => fs.existsSync(ground.at('k.chk')), 'the checkpoint');
    await until(() => childrenOf(first.pid).every((pid) => pid === sidecar), 'the death');
    process.kill(sidecar, 'SIGCONT');
    expect(await first.status, first.stderr()).toBe(137);
    const partial = ground.keys().find((key) => key.startsWith('traj.dat.0.partial-1'));
    ground.freshWork();
    // However often it is run again, without a checkpoint of its own.
    for (const script of ['exec 3>>traj.dat; echo 2 >&3', 'echo 2 > traj.dat']) {
      const again = await end(options, script, 74);
      expect(again.stderr()).toContain(`traj.dat (open): ${partial}`);
      expect(ground.text(`${partial}`)).toBe('1\n');
      ground.freshWork();
    }
  });

  it('a result that a task began after its checkpoint, and died in, is written again from there', async () => {
    const options = ['-r', '*.dat', '-k', 'k.chk'];
    await end(options, `echo 1 > k.tmp; mv k.tmp k.chk; ${DEATH('frame.dat')}`, 1);
    ground.freshWork();
    const second = await end(options, 'echo whole > frame.dat');
    expect(second.stderr()).not.toContain('NOT stored');
    expect(ground.text('frame.dat.0')).toBe('whole\n');
    expect(last()?.left).toEqual([]);
  });

  it('a part that came back with the checkpoint and is not gone on with is no whole result', async () => {
    const options = ['-r', 'part.*', '-k', 'k.chk'];
    const script = (n: number): string => `exec 3>part.${n}; echo ${n} >&3; echo ${n} > k.chk; sleep 600`;
    for (const n of [1, 2]) {
      const run = ground.run(options, script(n));
      await until(() => last()?.generations[0]?.attempt === n, `the checkpoint of attempt ${n}`);
      killTree(run.pid);
      await run.status;
      ground.freshWork();
    }
    const third = await end(options, 'cat part.*; echo 3 > part.3', 74);
    expect(third.stdout()).toBe('1\n2\n');
    expect(ground.keys()).toEqual(
      expect.arrayContaining(['part.1.0.partial-3', 'part.2.0.partial-3', 'part.3.0']),
    );
    expect(ground.text('part.1.0.partial-3')).toBe('1\n');
    expect(last()?.left.map(({ path }) => path)).toEqual(['part.1', 'part.2']);
    expect(third.stderr()).toContain('part.1 (it was open at the checkpoint');
  });

  /** The end of `cat` closes it, and may have been a death. */
  const ENDED = 'echo whole | cat > r.dat';
  const WAIT = 'until [ -e never ]; do :; done';
  /** No death renames a file. */
  const CHECKPOINT = 'echo state > k.tmp; mv k.tmp k.chk';
  const staged = (): readonly string[] => ground.keys().filter((key) => key.startsWith('r.dat.0.partial-'));

  it('a result whose close may be a death’s is staged, and gets its name when the index is done, as a good checkpoint followed it', async () => {
    const options = ['-r', '*.dat', '-k', 'k.chk'];
    const first = ground.run(options, `${ENDED}; ${CHECKPOINT}; ${WAIT}`);
    await until(
      () => last()?.generations.length === 1 && staged().length > 0,
      'the checkpoint and the result',
    );
    expect(last()?.generations[0]).toMatchObject({
      companions: [],
      behind: [{ path: 'r.dat', open: false, size: 6, followed: true }],
    });
    expect(ground.keys()).not.toContain('r.dat.0');
    killTree(first.pid);
    await first.status;
    ground.freshWork();
    const second = ground.run(options, `${CHECKPOINT}; ${WAIT}`);
    await until(() => last()?.generations[0]?.attempt === 2, 'the checkpoint of the second attempt');
    expect(ground.keys()).not.toContain('r.dat.0');
    killTree(second.pid);
    await second.status;
    ground.freshWork();
    const third = await end(options, 'true');
    expect(third.stderr()).not.toMatch(/will not write it again|NOT stored|half-written/);
    expect(third.stderr()).toContain('r.dat of attempt 1 is whole: stored as r.dat.0');
    expect(ground.text('r.dat.0')).toBe('whole\n');
    expect(staged()).toEqual([]);
    expect(last()?.left).toEqual([]);
    expect(last()?.results.map(({ path: name }) => name)).toContain('r.dat');
  });

  it('a result whose close may be a death’s, and that no checkpoint followed, is only named when the index is done', async () => {
    const options = ['-r', '*.dat', '-k', 'k.chk'];
    const first = ground.run(options, `${CHECKPOINT}; ${ENDED}; ${WAIT}`);
    await until(
      () => last()?.generations.length === 1 && staged().length > 0,
      'the checkpoint and the result',
    );
    killTree(first.pid);
    await first.status;
    ground.freshWork();
    const second = await end(options, 'true', 74);
    expect(second.stderr()).toContain(`${staged()[0]}`);
    expect(ground.keys()).not.toContain('r.dat.0');
    expect(last()?.left.map(({ path: name }) => name)).toEqual(['r.dat']);
  });

  it.each([
    ['kept beside a result that holds only what followed it', 'echo 2 >> r.dat', '2\n', '1\n'],
    ['kept beside a result that begins otherwise', 'echo 01 > r.dat', '01\n', '1\n'],
    [
      'deleted once a result is stored that begins with it',
      'echo 1 > r.dat; echo 2 >> r.dat',
      '1\n2\n',
      undefined,
    ],
  ])('what a result held when its checkpoint was taken is %s', async (_, script, result, kept) => {
    const options = ['-r', '*.dat', '-k', 'k.chk'];
    const first = ground.run(options, `echo 1 | cat > r.dat; ${CHECKPOINT}; ${WAIT}`);
    await until(
      () => last()?.generations.length === 1 && staged().length > 0,
      'the checkpoint and the result',
    );
    killTree(first.pid);
    await first.status;
    ground.freshWork();
    // An attempt that stores what follows, and no checkpoint.
    await end(options, `${script}; exit 6`, 6);
    ground.freshWork();
    const third = await end(options, script);
    expect(ground.text('r.dat.0')).toBe(result);
    expect(staged()).toEqual([]);
    const older = ground.keys().filter((key) => key.startsWith('r.dat.0.~'));
    expect(older.map(ground.text)).toEqual(kept === undefined ? [] : [kept]);
    if (kept !== undefined) expect(third.stderr()).toContain(`r.dat of attempt 1 (2 B) kept as ${older[0]}`);
    expect(last()?.left).toEqual([]);
  });

  it('a result that is stored only beside its key, and that a good checkpoint followed, gets its good name', async () => {
    const options = ['-r', '*.dat', '-k', 'k.chk'];
    const first = ground.run(options, `${ENDED}; ${CHECKPOINT}; until [ -e go ]; do :; done; exit 6`);
    await until(() => last()?.generations.length === 1, 'the checkpoint');
    fs.writeFileSync(ground.at('go'), '');
    expect(await first.status, first.stderr()).toBe(6);
    expect(staged()).toHaveLength(1);
    ground.freshWork();
    const second = await end(options, 'true');
    expect(second.stderr()).not.toContain('NOT stored');
    expect(ground.text('r.dat.0')).toBe('whole\n');
    expect(staged()).toEqual([]);
  });

  it('a result that came back with a checkpoint that a death may have closed has no good name', async () => {
    const options = ['-r', '*.dat', '-k', 'k.chk'];
    await end(options, `${DIES('r.dat')}; ${DEATH('k.chk')}`, 1);
    expect(last()?.generations).toMatchObject([{ suspect: true }]);
    ground.freshWork();
    await end(options, 'cat k.chk', 74);
    expect(ground.keys()).not.toContain('r.dat.0');
    expect(last()?.left.map(({ path }) => path)).toEqual(['r.dat']);
  });

  it('a result that stood in the work directory all the time lacks nothing', async () => {
    const options = ['-r', 'traj.dat', '-k', 'k.chk'];
    const first = ground.run(options, 'exec 3>traj.dat; echo one >&3; echo 1 > k.chk; sleep 600');
    await until(() => last()?.generations.length === 1, 'the checkpoint');
    killTree(first.pid);
    await first.status;
    const second = await end(options, 'exec 3>>traj.dat; echo two >&3');
    expect(second.stderr()).not.toMatch(/will not write it again|NOT stored/);
    expect(last()?.left).toEqual([]);
    expect(ground.text('traj.dat.0')).toBe('one\ntwo\n');
  });

  it('a half-written result that is not written again is named at the end: the index is not done', async () => {
    await end(['-r', '*.dat'], `echo whole > a.dat; ${DEATH('b.dat')}`, 1);
    expect(ground.keys()).toContain('b.dat.0.partial-1');
    ground.freshWork();
    const second = await end(['-r', '*.dat'], 'echo whole > a.dat', 74);
    expect(second.stderr()).toContain(
      'not written again: b.dat.0.partial-1\n  try: look whether it is whole, and then move it to its own key, b.dat.0,',
    );
    expect(last()).toMatchObject({ kind: 'failed', left: [{ path: 'b.dat' }] });
    expect(ground.keys()).toContain('b.dat.0.partial-1');
  });

  it('a half-written result that was stored whole later is deleted when the index is done', async () => {
    await end(['-r', '*.dat'], DEATH('b.dat'), 1);
    expect(ground.keys()).toEqual(['b.dat.0.partial-1']);
    ground.freshWork();
    await end(['-r', '*.dat'], 'echo whole > b.dat; sleep 0.1; exit 6', 6);
    ground.freshWork();
    const third = await end(['-r', '*.dat'], 'echo whole > b.dat');
    expect(third.stderr()).not.toContain('NOT stored');
    expect(last()?.left).toEqual([]);
    expect(ground.keys()).toEqual(['b.dat.0']);
  });

  it('a half-written result whose bytes are those of a good checkpoint gets its good name', async () => {
    const options = ['-r', 'state', '-k', 'state', '--verify-at', 'commit', '--verify-checkpoint', 'true'];
    await end(options, DEATH('state'), 1);
    expect(ground.keys()).toContain('state.0.partial-1');
    ground.freshWork();
    const second = await end([...options, '--no-restore'], 'true');
    expect(second.stderr()).toContain('state of attempt 1 is whole: stored as state.0');
    expect(ground.text('state.0')).toBe('half\n');
    expect(ground.keys()).not.toContain('state.0.partial-1');
    expect(last()?.left).toEqual([]);
    expect(last()?.results.map(({ key }) => key)).toEqual(['state.0']);
  });
});

it('a half-written result that somebody has moved or deleted keeps no index from being done', async () => {
  const place = openPlace();
  try {
    const run = async (script: string, status: number): Promise<void> => {
      const started = place.run(['-r', '*.dat'], ['sh', '-c', script]);
      expect(await started.status, started.stderr()).toBe(status);
      place.freshWork();
    };
    await run(`echo whole > a.dat; ${DEATH('b.dat')}`, 1);
    await run('echo whole > a.dat', 74);
    fs.renameSync(path.join(place.store, 'b.dat.0.partial-1'), path.join(place.store, 'b.dat.0'));
    await run('echo whole > a.dat', 0);
    expect(place.records().at(-1)?.record).toMatchObject({ kind: 'done', left: [] });
    expect(place.text('b.dat.0')).toBe('half\n');
  } finally {
    place.close();
  }
});

describe('what a death left of a result, and its attempt was killed before it could record it,', () => {
  let place: Place;
  beforeEach(async () => {
    place = openPlace();
    await run(['-r', 'b.dat'], DEATH('b.dat'), 1);
    // As if all had been killed just before the last record.
    const records = path.join(place.store, '.capture/t/0');
    for (const name of fs.readdirSync(records))
      if (name.includes('failed')) fs.rmSync(path.join(records, name));
    place.freshWork();
  });
  afterEach(() => place.close());

  async function run(options: readonly string[], script: string, status: number, name = 't'): Promise<Run> {
    const started = place.run([...options, '--task-name', name], ['sh', '-c', script]);
    expect(await started.status, started.stderr()).toBe(status);
    return started;
  }

  it('is named when the task ends without the result', async () => {
    expect(JSON.stringify(place.records())).not.toContain('partial-1');
    const second = await run(['-r', '*.dat', '-r', 'b.dat'], 'echo whole > a.dat', 74);
    expect(second.stderr()).toContain('not written again: b.dat.0.partial-1\n');
    expect(place.records().at(-1)?.record.left).toMatchObject([{ path: 'b.dat' }]);
    expect(place.keys()).toContain('b.dat.0.partial-1');
  });

  it.each([
    ['a glob', ['-r', '*.dat'], 'echo whole > a.dat'],
    ['a directory', ['-r', './'], 'echo whole > a.dat'],
  ])(
    'is named also when only %s matches the result, and nobody has written it again',
    async (_, options, script) => {
      const second = await run(options, script, 74);
      expect(second.stderr()).toContain('not written again: b.dat.0.partial-1\n');
      expect(second.stderr().match(/not written again/g)).toHaveLength(1);
      expect(place.records().at(-1)?.record.left).toMatchObject([{ path: 'b.dat' }]);
      expect(place.keys()).toContain('b.dat.0.partial-1');
    },
  );

  it('goes when the result is stored whole', async () => {
    await run(['-r', '*.dat'], 'echo whole > b.dat', 0);
    expect(place.keys()).toEqual(['b.dat.0']);
  });

  it('stays when it is another task’s', async () => {
    const task = ['sh', '-c', 'echo begun; sleep 600'];
    const killed = place.run(['-r', '*.dat', '--task-name', 'u'], task);
    await killed.says('begun');
    killTree(killed.pid);
    await killed.status;
    await run(['-r', '*.dat'], 'echo whole > b.dat', 0, 'u');
    expect([...place.keys()].toSorted()).toEqual(['b.dat.0', 'b.dat.0.partial-1']);
  });
});
