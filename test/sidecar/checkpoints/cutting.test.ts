// Which checkpoint files are looked at for a cut, and what is said of a set that is older than the bound. Real files; the
// clock is the test's.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { compileManifest } from '../../../src/model/file/manifest.ts';
import type { Generation, StoredFile } from '../../../src/model/format/records.ts';
import type { RelPath } from '../../../src/model/path.ts';
import { MountsBeneath } from '../../../src/native/mounts.ts';
import { Cutting, membersAmong, type TakenCut } from '../../../src/sidecar/checkpoints/cutting.ts';
import { Files } from '../../../src/sidecar/queue/files.ts';
import type { Context } from '../../../src/sidecar/run/context.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

/** Files whose pushes never end. */
function filesThatWait(now: () => number): Files {
  return new Files({
    closeOf: (lastClose) => lastClose,
    isAfter: ({ atMs }, { ctimeNs }) => BigInt(ctimeNs) / 1_000_000n > atMs,
    push: () => new Promise(() => undefined),
    rolesOf: () => ['checkpoint'],
    sizeOf: () => 0,
    catchUp: () => undefined,
    isStill: () => true,
    now,
    signal: new AbortController().signal,
  });
}

describe('the members of a cut: the files that exist, among very many names that came and went', () => {
  const NAMES = 2000;
  /** Far fewer than there are names, and more than are looked at though they are gone. */
  const MOST_LOOKS = 250;

  let root: TestDir;
  let files: Files;
  let looks: readonly unknown[][];
  beforeEach(() => {
    root = testDir();
    files = filesThatWait(() => 0);
    looks = vi.spyOn(fs, 'lstatSync').mock.calls;
  });
  afterEach(() => {
    vi.restoreAllMocks();
    root.remove();
  });

  function closed(name: RelPath): void {
    files.closed(name, 'close', 0);
  }

  function members(): readonly RelPath[] {
    const patterns = { results: [], checkpoints: ['ck.*'], inputs: [], companions: [], exclude: [] };
    const manifest = compileManifest({ ...patterns, newest: undefined });
    const context = {
      root,
      mounts: new MountsBeneath(root),
      manifest,
      settings: { manifest: { newest: undefined } },
    };
    return membersAmong(context as unknown as Context, files, () => undefined).members;
  }

  function manyThatWent(): void {
    for (let n = 0; n < NAMES; n += 1) closed(`ck.${n}`);
    root.write('ck.5', 'x');
    expect(members()).toEqual(['ck.5']);
    looks = vi.spyOn(fs, 'lstatSync').mockClear().mock.calls;
  }

  it('removed names are no longer checked, except the last of them', () => {
    manyThatWent();
    expect(members()).toEqual(['ck.5']);
    expect(looks.length).toBeLessThan(MOST_LOOKS);
  });

  it('a name that reappears is a member again, however many names were removed after it', () => {
    manyThatWent();
    root.write('ck.0', 'x');
    closed('ck.0');
    expect(members()).toEqual(['ck.0', 'ck.5']);
  });

  it('a file that is removed and rewritten is a member as soon as it exists, before it is closed', () => {
    manyThatWent();
    fs.rmSync(`${root.path}/ck.5`);
    expect(members()).toEqual([]);
    root.write('ck.5', 'y');
    expect(members()).toEqual(['ck.5']);
  });

  it('a file that was there before the task is a member', () => {
    root.write('ck.old', 'x');
    files.inherit('ck.old', root.facts('ck.old'));
    expect(members()).toEqual(['ck.old']);
  });
});

describe('a set that is older than the bound', () => {
  /** Past the bound, and what is on its way when it passes. */
  const LATE_MS = 12_001;

  let root: TestDir;
  let files: Files;
  let cutting: Cutting;
  /** The closes that the kernel has queued. */
  let queued: () => void;
  let nowMs: number;
  let said: string[];
  beforeEach(() => {
    process.on('SIGIO', ignore);
    root = testDir();
    nowMs = 0;
    said = [];
    const now = (): number => nowMs;
    files = filesThatWait(now);
    // Dates: nothing proves a set of them, whatever is closed.
    const patterns = { results: [], checkpoints: ['ck-*', 'never'], inputs: [], companions: [], exclude: [] };
    const context = {
      root,
      mounts: new MountsBeneath(root),
      manifest: compileManifest({ ...patterns, newest: undefined }),
      settings: { manifest: patterns, checkpointSettleMs: 600_000, checkpointLast: undefined },
      ledger: { generations: [], restored: undefined },
      history: { attempts: [] },
      resumed: undefined,
      now,
      log: { warn: (text: string, { hint }: { hint: string }) => said.push(`${text}; try: ${hint}`) },
    };
    cutting = new Cutting({
      context: context as unknown as Context,
      files,
      drainEvents: () => queued(),
      isLast: () => false,
      restored: [],
    });
    queued = ignore;
  });
  afterEach(() => {
    root.remove();
    process.off('SIGIO', ignore);
  });

  const ignore = (): void => undefined;

  function closed(name: string, content: string): void {
    root.write(name, content);
    files.closed(name, 'close', nowMs);
    cutting.closed(name, 'close', nowMs);
  }

  /** The cut of an instant that is due by now. */
  function cutAt(atMs: number): TakenCut {
    nowMs = atMs;
    closed('ck-1-2', `at ${atMs}`);
    const look = cutting.look();
    if (look.kind !== 'cut') throw new Error(`no cut: ${JSON.stringify(look)}`);
    return look;
  }

  it('a close that is queued when a scan counts the file is no further step of a round; a rename always is', () => {
    root.write('ck-1-1', 'as it stands');
    const steps: boolean[] = [];
    for (const how of ['close', 'rename', 'link', 'dir-rename'] as const) {
      queued = () => void steps.push(cutting.closed('ck-1-1', how, nowMs));
      expect(cutting.closed('ck-1-1', 'scan', nowMs)).toBe(true);
    }
    expect(steps).toEqual([false, true, true, true]);
    // Of a rewrite within one tick of the file's times.
    expect(cutting.closed('ck-1-1', 'close', nowMs)).toBe(true);
  });

  it('a close tells when its file was written, unless the file system keeps only whole seconds', () => {
    const file = `${root.path}/ck-1-1`;
    root.write('ck-1-1', 'x');
    const written = [1000.25, 1000].map((s) => {
      fs.utimesSync(file, s, s);
      cutting.closed('ck-1-1', 'close', nowMs);
      return cutting.state.lastWrittenMs;
    });
    expect(written).toEqual([1_000_250, undefined]);
  });

  it('a file that changes before it is read is named when the set is late, and only once', () => {
    closed('ck-1-1', 'first');
    cutting.givenUp(cutAt(8000), 'ck-1-2');
    expect(said).toEqual([]);
    for (const atMs of [LATE_MS, LATE_MS + 5000]) cutting.givenUp(cutAt(atMs), 'ck-1-2');
    expect(said).toEqual([
      'the newest checkpoint is older than what was closed 12.0 s ago: ck-1-2 changes faster than it is sent; ' +
        'try: write checkpoints less often',
    ]);
  });

  it('when the store refuses a set, the set is late for that reason, and no file is named', () => {
    closed('ck-1-1', 'first');
    cutting.givenUp(cutAt(8000));
    cutting.givenUp(cutAt(LATE_MS));
    expect(said).toEqual([]);
  });

  it('a file that has a writer at each look is named as such', () => {
    closed('ck-1-1', 'first');
    const writer = fs.openSync(`${root.path}/ck-1-1`, 'a');
    for (const atMs of [8000, LATE_MS]) {
      nowMs = atMs;
      closed('ck-1-2', `at ${atMs}`);
      expect(cutting.look()).toMatchObject({ kind: 'wait', lacks: 'ck-1-1 is being written' });
    }
    fs.closeSync(writer);
    expect(said).toEqual([
      expect.stringMatching(/: ck-1-1 is being written each time that one is due; try: close it/),
    ]);
  });
});

describe('a set that still holds what was restored', () => {
  let root: TestDir;
  let files: Files;
  beforeEach(() => {
    process.on('SIGIO', ignore);
    root = testDir();
  });
  afterEach(() => {
    root.remove();
    process.off('SIGIO', ignore);
  });

  const ignore = (): void => undefined;

  const said: string[] = [];

  /** Of `ck.9.a`. */
  const setOf = (
    attempt: number,
    generation: number,
    key: string,
    marks: Partial<Generation>,
  ): Generation => ({
    attempt,
    generation,
    at: '',
    companions: [],
    ...marks,
    members: [{ path: 'ck.9.a', key } as StoredFile],
  });
  const marked = (marks: Partial<Generation>): readonly Generation[] => [setOf(2, 1, 'k', marks)];

  /** By which evidence sets are taken from the third round on, of a task that began with set 2-1 of these. */
  function proofs(
    generations: readonly Generation[],
    rounds: number,
    before: (round: number) => void = ignore,
    namesOf = (round: number): readonly string[] => [`ck.${round}.a`, `ck.${round}.b`],
  ): readonly string[] {
    let nowMs = 0;
    const now = (): number => nowMs;
    files = filesThatWait(now);
    root.write('ck.9.a', 'x');
    files.inherit('ck.9.a', root.facts('ck.9.a'));
    const patterns = { results: [], checkpoints: ['ck.*'], inputs: [], companions: [], exclude: [] };
    const context = {
      root,
      mounts: new MountsBeneath(root),
      manifest: compileManifest({ ...patterns, newest: undefined }),
      settings: { manifest: patterns, checkpointSettleMs: 2000, checkpointLast: undefined },
      ledger: { generations, restored: '2-1' },
      history: { attempts: [{ attempt: 2, restored: '1-4' }] },
      resumed: undefined,
      now,
      log: { warn: (text: string) => said.push(text) },
    };
    const options = { files, drainEvents: ignore, isLast: () => false, restored: [] };
    const cutting = new Cutting({ ...options, context: context as unknown as Context });
    const taken: string[] = [];
    said.length = 0;
    for (let round = 1; round <= rounds; round += 1) {
      before(round);
      for (const letter of ['a', 'b']) fs.rmSync(`${root.path}/ck.${round - 2}.${letter}`, { force: true });
      for (const name of namesOf(round)) {
        nowMs += name.endsWith('a') ? 20_000 : 1;
        root.write(name, String(round));
        files.closed(name, 'close', nowMs);
        cutting.closed(name, 'close', nowMs);
      }
      const look = cutting.look();
      taken.push(look.kind === 'cut' ? look.proof : look.kind);
      if (look.kind === 'cut') cutting.sent(look);
    }
    return taken.slice(2);
  }

  it.each<Partial<Generation>>([{ incomplete: true }, { suspect: true }, { unproven: true }])(
    'of a set that is %o is of an instant, whatever the task has closed beside it',
    (marks) => {
      expect(proofs(marked(marks), 5)).toEqual(['instant', 'instant', 'instant']);
    },
  );

  it.each<Partial<Generation>>([{}, { instant: true }])(
    'of any other (%o) is proven by its rounds',
    (marks) => {
      expect(proofs(marked(marks), 4)).toEqual(['round', 'round']);
    },
  );

  it('is proven once the task has removed those files, or closed them again', () => {
    const remove = (round: number): void => (round === 4 ? fs.rmSync(`${root.path}/ck.9.a`) : undefined);
    expect(proofs(marked({ incomplete: true }), 4, remove)).toEqual(['instant', 'round']);
    const again = (round: number): void => (round === 4 ? files.closed('ck.9.a', 'close', 1) : undefined);
    expect(proofs(marked({ incomplete: true }), 4, again)).toEqual(['instant', 'round']);
  });

  it('and came from a set of an instant, is doubted for the files that this set had from a marked one', () => {
    const instant = setOf(2, 1, 'k', { instant: true });
    expect(proofs([instant, setOf(1, 4, 'k', { incomplete: true })], 4)).toEqual(['instant', 'instant']);
    expect(proofs([instant, setOf(1, 4, 'other', { incomplete: true })], 4)).toEqual(['round', 'round']);
    expect(proofs([instant, setOf(1, 4, 'k', {})], 4)).toEqual(['round', 'round']);
  });

  it('causes one message that nothing proves it, after ten sets without an order, and never for a program with an order', () => {
    const inAnyOrder = (round: number): readonly string[] =>
      [2, 3, 5, 9, 12].includes(round)
        ? [`ck.${round}.b`, `ck.${round}.a`]
        : [`ck.${round}.a`, `ck.${round}.b`];
    expect(proofs([], 18, ignore, inAnyOrder)).not.toContain('round');
    expect(said).toEqual([
      'nothing has shown yet when a checkpoint set is whole: all 10 so far are as their files were at one instant',
    ]);
    proofs([], 30);
    expect(said).toEqual([]);
  });
});
