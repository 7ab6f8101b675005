// Which declared files hold content that the store has not got: real files and real writers; the watcher's word is
// the test's.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Close,
  type FileState,
  type Fingerprint,
  newFileState,
} from '../../../src/model/file/file-state.ts';
import { compileManifest } from '../../../src/model/file/manifest.ts';
import type { Behind } from '../../../src/model/format/records.ts';
import { clockMs } from '../../../src/native/clock.ts';
import { factsBeneath } from '../../../src/native/files.ts';
import { FileStates } from '../../../src/sidecar/queue/file-states.ts';
import type { StagedObject } from '../../../src/sidecar/queue/staged.ts';
import { Unanswered } from '../../../src/sidecar/queue/unanswered.ts';
import { Unsaved, type UnsavedSources } from '../../../src/sidecar/queue/unsaved.ts';

let root: { fd: number; path: string };
let fileStates: FileStates;
let unclosed: string[];
let staged: [string, StagedObject][];
let unsaved: Unsaved;
let opened: number[];
let context: ConstructorParameters<typeof Unsaved>[0];
/** By path, the push that stands under the result's name. */
let pushes: Map<string, { readonly push: string }>;
let unanswered: Unanswered;

beforeEach(() => {
  process.on('SIGIO', ignore);
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'unsaved-'));
  root = { fd: fs.openSync(dir, 'r'), path: dir };
  fileStates = new FileStates();
  unclosed = [];
  staged = [];
  opened = [];
  const patterns = { results: ['r.*'], checkpoints: ['k.*'], inputs: [], companions: [], exclude: [] };
  const manifest = compileManifest({ ...patterns, newest: undefined });
  const settings = { manifest: patterns };
  const now = clockMs;
  pushes = new Map();
  let ids = 0;
  unanswered = new Unanswered(() => `sent ${(ids += 1)}`);
  const ledger = { results: pushes };
  context = { root, manifest, settings, now, ledger } as unknown as typeof context;
  unsaved = new Unsaved(context, sources());
});
afterEach(() => {
  for (const fd of [root.fd, ...opened]) fs.closeSync(fd);
  fs.rmSync(root.path, { recursive: true });
  process.off('SIGIO', ignore);
});

const ignore = (): void => undefined;
const sources = (): UnsavedSources => ({
  files: fileStates,
  watcher: { unclosed: () => unclosed },
  unanswered,
  staged: {
    objects: stagedObjects,
    of: (path) => staged.flatMap(([at, one]) => (at === path ? one : [])),
  },
});
function* stagedObjects(): Generator<readonly [string, StagedObject]> {
  yield* new Map(staged);
}
const open = (name: string, text: string): void => {
  const fd = fs.openSync(path.join(root.path, name), 'a');
  fs.writeSync(fd, text);
  opened.push(fd);
};
/** As files.ts has it when a file was closed, and stored since unless `change` says otherwise. */
function closed(name: string, change: Partial<FileState> = {}): void {
  const before = newFileState(name, 'result');
  const fingerprint = factsBeneath(root, name);
  const durable = fingerprint && { fingerprint, md5: '0'.repeat(32), size: fingerprint.size };
  const fileState = { ...before, closes: 1, durableCloses: 1, durable, ...change };
  fileStates.set(fileState, before);
}

describe('a result that is not stored', () => {
  it('may be a new file that nobody has closed, once it is not empty', () => {
    unclosed = ['r.new', 'r.empty', 'r.gone', 'other'];
    open('r.new', 'text');
    open('r.empty', '');
    open('other', 'text');
    expect(unsaved.look('result')).toEqual([{ path: 'r.new', open: true }]);
    expect(unsaved.look('checkpoint')).toEqual([]);
  });

  it('may be a closed file that is being sent, or a file that its writer has open', () => {
    closed('r.way', { pending: true, durable: undefined });
    closed('r.held', { pending: true, blocked: true, durable: undefined });
    expect(unsaved.look('result')).toEqual([
      { path: 'r.held', open: true },
      { path: 'r.way', open: false },
    ]);
  });

  it('may be a stored file that was opened and written to again, until it is as it was stored', () => {
    fs.writeFileSync(path.join(root.path, 'r.log'), 'a');
    closed('r.log');
    expect(unsaved.look('result')).toEqual([]);
    open('r.log', 'b');
    expect(unsaved.look('result')).toEqual([{ path: 'r.log', open: true }]);
    closed('r.log', { closes: 2 });
    expect(unsaved.look('result')).toEqual([]);
  });

  it('may be a file from before the task to which the task appends', () => {
    fs.writeFileSync(path.join(root.path, 'r.log'), 'a');
    closed('r.log', { closes: 0, durable: undefined, inherited: factsBeneath(root, 'r.log') });
    expect(unsaved.look('result')).toEqual([]);
    open('r.log', 'b');
    expect(unsaved.look('result')).toEqual([{ path: 'r.log', open: true }]);
  });

  it('is searched for among few files, however many there are', () => {
    let looks = 0;
    const counting = {
      ...root,
      get fd() {
        looks += 1;
        return root.fd;
      },
    };
    const manifest = compileManifest({
      results: ['r.*'],
      checkpoints: [],
      inputs: [],
      companions: [],
      exclude: [],
      newest: undefined,
    });
    unsaved = new Unsaved({ ...context, root: counting, manifest }, sources());
    fs.writeFileSync(path.join(root.path, 'r.1'), 'a');
    for (let n = 0; n < 200_000; n += 1) closed(`r.${n % 20_000}`, { closes: n + 1 });
    expect(unsaved.look('result')).toEqual([]);
    expect(looks).toBe(200);
    // Closed first, and again in the middle: it is still one of the last 200.
    fs.writeFileSync(path.join(root.path, 'r.again'), 'a');
    closed('r.again');
    for (let n = 0; n < 199; n += 1) closed(`r.before.${n}`);
    closed('r.again', { closes: 2 });
    for (let n = 0; n < 199; n += 1) closed(`r.after.${n}`);
    open('r.again', 'b');
    expect(unsaved.look('result')).toEqual([{ path: 'r.again', open: true }]);
  });

  it('may be a file that was changed without a close and whose writer is gone: it is not open', () => {
    fs.writeFileSync(path.join(root.path, 'r.log'), 'a');
    closed('r.log');
    fs.writeFileSync(path.join(root.path, 'r.log'), 'changed');
    expect(unsaved.look('result')).toEqual([{ path: 'r.log', open: false }]);
  });
});

describe('a set is ahead of', () => {
  const CHECKPOINT_MS = 5000;
  const SET = { upTo: CHECKPOINT_MS + 0.5, isProven: true };
  /** Of a name that had just appeared. */
  const close = (atMs: number): Close => ({
    how: 'close',
    atMs,
    evidence: 'doubtful',
    seq: atMs,
    since: atMs,
  });
  beforeEach(() => {
    const checkpoint = newFileState('k.chk', 'checkpoint');
    fileStates.set({ ...checkpoint, closes: 1, lastClose: close(CHECKPOINT_MS) }, checkpoint);
  });
  const write = (name: string, text: string, atMs = 0): void => {
    fs.writeFileSync(path.join(root.path, name), text);
    fs.utimesSync(path.join(root.path, name), atMs / 1000, atMs / 1000);
  };
  const now = (name: string): Pick<Behind, 'size' | 'mtimeNs'> => {
    const { size = -1, mtimeNs = '' } = factsBeneath(root, name) ?? {};
    return { size, mtimeNs };
  };
  const stage = (name: string, one: Close | undefined): void => {
    const fingerprint = { dev: '1', ino: '1', ctimeNs: '70', size: 7, mtimeNs: '70' };
    const file = { path: name, push: `staged ${staged.length}` };
    staged.push([name, { file, fingerprint, close: one } as StagedObject]);
  };
  const onItsWay = (name: string, atMs: number): void =>
    closed(name, { pending: true, durable: undefined, lastClose: close(atMs) });

  it('an open file, in its present state', () => {
    unclosed = ['r.new'];
    open('r.new', 'a');
    expect(unsaved.behind(SET)).toEqual([{ path: 'r.new', open: true, ...now('r.new'), over: [] }]);
  });

  it('a file that is being sent, and follows it if that was closed before the last of its members', () => {
    for (const name of ['r.before', 'r.after']) write(name, 'a', CHECKPOINT_MS);
    onItsWay('r.before', CHECKPOINT_MS);
    onItsWay('r.after', CHECKPOINT_MS + 1);
    expect(unsaved.behind(SET)).toEqual([
      { path: 'r.before', open: false, ...now('r.before'), over: [], followed: true },
      { path: 'r.after', open: false, ...now('r.after'), over: [] },
    ]);
  });

  it('a file that was written again since that close and not closed, and does not follow it', () => {
    write('r.again', 'half', CHECKPOINT_MS + 10);
    onItsWay('r.again', CHECKPOINT_MS);
    expect(unsaved.behind(SET)).toEqual([{ path: 'r.again', open: false, ...now('r.again'), over: [] }]);
  });

  it('a file that its writer has open again, and does not follow it', () => {
    write('r.open', 'a');
    closed('r.open', { pending: true, blocked: true, durable: undefined, lastClose: close(CHECKPOINT_MS) });
    expect(unsaved.behind(SET)).toEqual([{ path: 'r.open', open: true, ...now('r.open'), over: [] }]);
  });

  it('a file that was open when the last of its members was closed, whether its present state is staged or on its way', () => {
    const lastClose = close(CHECKPOINT_MS + 1);
    const staged = (name: string, change: Partial<FileState>): void => {
      closed(name, change);
      stage(name, change.lastClose);
    };
    write('r.sent', 'a');
    closed('r.sent', {
      pending: true,
      durable: undefined,
      lastClose: { ...lastClose, since: CHECKPOINT_MS },
    });
    staged('r.open', { lastClose: { ...lastClose, since: CHECKPOINT_MS } });
    staged('r.new', { lastClose });
    // A scan has found it once more since.
    staged('r.scanned', { lastClose: { ...lastClose, since: 0 }, closes: 2 });
    staged('r.again', { lastClose: { ...lastClose, since: undefined } });
    const named = unsaved
      .behind(SET)
      .map(({ path: name, open: isOpen, followed }) => [name, isOpen, followed]);
    expect(named).toEqual([
      ['r.open', true, undefined],
      ['r.scanned', true, undefined],
      ['r.again', false, undefined],
      ['r.sent', true, undefined],
    ]);
    // Without an order nobody knows.
    const unordered = (isProven: boolean): readonly unknown[] =>
      unsaved.behind({ upTo: undefined, isProven }).map((one) => [one.path, one.open]);
    for (const isProven of [true, false]) {
      const stale = ['r.open', 'r.new', 'r.scanned', 'r.again'].map((name) => [name, !isProven]);
      expect(unordered(isProven)).toEqual([...stale, ['r.sent', false]]);
    }
  });

  it('a file that is not stored, and knows what stood there: nothing older can come', () => {
    write('r.dat', 'a');
    pushes.set('r.dat', { push: 'p1' });
    closed('r.dat', { pending: true, durable: undefined, lastClose: close(CHECKPOINT_MS + 1) });
    expect(unsaved.behind(SET)).toMatchObject([{ over: ['p1'] }]);
    expect(unsaved.behind(SET)[0]?.unsure).toBeUndefined();
    // What a dead sidecar has sent may come yet.
    const replaced = new Unsaved({ ...context, resumed: 'replaced' }, sources());
    expect(replaced.behind(SET)).toMatchObject([{ over: ['p1'], unsure: true }]);
  });

  it('a file of which older states were sent and never answered: each push is named, not that of this state', () => {
    const closedAgain = (): void =>
      closed('r.dat', { pushing: true, durable: undefined, lastClose: close(CHECKPOINT_MS + 1) });
    const state = (): Fingerprint => factsBeneath(root, 'r.dat') ?? expect.fail('it is gone');
    write('r.dat', 'a');
    const older = unanswered.begin('r.dat', 1).idFor(state());
    // The same size and the same mtime.
    write('r.dat', 'b');
    closedAgain();
    expect(unsaved.behind(SET)).toMatchObject([{ over: [older] }]);
    const own = unanswered.begin('r.dat', 2).idFor(state());
    expect(unsaved.behind(SET)).toMatchObject([{ over: [older] }]);
    write('r.dat', 'c');
    expect(unsaved.behind(SET)).toMatchObject([{ over: [older, own] }]);
  });

  it('a file that is being read: a push of an older state is named, and this state is sent with another', () => {
    write('r.dat', 'a');
    const was = factsBeneath(root, 'r.dat') ?? expect.fail('it is gone');
    write('r.dat', 'b');
    const is = factsBeneath(root, 'r.dat') ?? expect.fail('it is gone');
    closed('r.dat', { pushing: true, durable: undefined, lastClose: close(CHECKPOINT_MS + 1) });
    const named = (): readonly string[] => unsaved.behind(SET)[0]?.over ?? [];
    const older = unanswered.begin('r.dat', 1);
    expect(named()).toContain(older.idFor(was));
    const newest = unanswered.begin('r.dat', 2);
    expect(named()).not.toContain(newest.idFor(is));
  });

  it('a file with more unanswered pushes than are counted', () => {
    write('r.dat', 'a');
    const was = factsBeneath(root, 'r.dat') ?? expect.fail('it is gone');
    for (let n = 0; n < 9; n += 1) unanswered.begin('r.dat', 1).idFor(was);
    write('r.dat', 'b');
    closed('r.dat', { pending: true, durable: undefined, lastClose: close(CHECKPOINT_MS + 1) });
    expect(unsaved.behind(SET)).toMatchObject([{ unsure: true }]);
    unanswered.named('r.dat');
    expect(unsaved.behind(SET)).toEqual([{ path: 'r.dat', open: false, ...now('r.dat'), over: [] }]);
  });

  it('a staged file that it follows, and no staged file that was closed later', () => {
    stage('r.before', close(CHECKPOINT_MS));
    stage('r.after', close(CHECKPOINT_MS + 1));
    stage('r.inherited', undefined);
    expect(unsaved.behind(SET)).toEqual([
      { path: 'r.before', open: false, size: 7, mtimeNs: '70', over: [], followed: true },
    ]);
  });

  it('a staged file that was closed again after it, as the content before may have gone with that', () => {
    const later: Close = { ...close(CHECKPOINT_MS + 1), since: undefined };
    stage('r.again', later);
    stage('r.replaced', { ...later, how: 'rename' });
    // A scan has seen it, and not its close.
    stage('r.found', { ...later, how: 'scan' });
    const state = { open: false, size: 7, mtimeNs: '70', over: [] };
    expect(unsaved.behind(SET)).toEqual(['r.again', 'r.found'].map((path) => ({ path, ...state })));
  });

  it('a staged file that stands beside older ones, also under its name: each of them is named', () => {
    pushes.set('r.dat', { push: 'p1' });
    stage('r.dat', close(CHECKPOINT_MS - 1));
    stage('r.dat', close(CHECKPOINT_MS));
    expect(unsaved.behind(SET).map(({ over }) => over)).toEqual([['p1', 'staged 0']]);
  });

  it('the newer state of a staged file that was opened again', () => {
    stage('r.log', close(CHECKPOINT_MS));
    unclosed = ['r.log'];
    open('r.log', 'a');
    expect(unsaved.behind(SET)).toEqual([{ path: 'r.log', open: true, ...now('r.log'), over: ['staged 0'] }]);
  });

  it('a file that only a walk has found, and does not follow it, whenever it was written', () => {
    write('r.found', 'a', CHECKPOINT_MS - 1);
    const lastClose = { ...close(CHECKPOINT_MS), how: 'scan' } as const;
    closed('r.found', { pending: true, durable: undefined, lastClose });
    expect(unsaved.behind(SET)).toEqual([{ path: 'r.found', open: false, ...now('r.found'), over: [] }]);
  });

  it('a file that was written before its members and closed after them, and does not follow it', () => {
    write('r.late', 'a', CHECKPOINT_MS - 1);
    onItsWay('r.late', CHECKPOINT_MS + 1);
    expect(unsaved.behind(SET)).toEqual([{ path: 'r.late', open: false, ...now('r.late'), over: [] }]);
  });

  it('no file that is gone', () => {
    onItsWay('r.gone', CHECKPOINT_MS);
    expect(unsaved.behind(SET)).toEqual([]);
  });

  it('at most 1,000 results', () => {
    for (let n = 0; n <= 1000; n += 1) {
      write(`r.${n}`, 'a');
      onItsWay(`r.${n}`, CHECKPOINT_MS);
    }
    expect(unsaved.look('result')).toHaveLength(1001);
    expect(unsaved.behind(SET)).toHaveLength(1000);
  });
});
