// Which declared files hold content that the store has not got: real files and real writers; the watcher's word is
// the test's.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FileState, newFileState } from '../../../src/model/file/file-state.ts';
import { compileManifest } from '../../../src/model/file/manifest.ts';
import { factsBeneath } from '../../../src/native/files.ts';
import { FileStates } from '../../../src/sidecar/queue/file-states.ts';
import { Unsaved } from '../../../src/sidecar/queue/unsaved.ts';

let root: { fd: number; path: string };
let fileStates: FileStates;
let unclosed: string[];
let unsaved: Unsaved;
let opened: number[];

beforeEach(() => {
  process.on('SIGIO', ignore);
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'unsaved-'));
  root = { fd: fs.openSync(dir, 'r'), path: dir };
  fileStates = new FileStates();
  unclosed = [];
  opened = [];
  const patterns = { results: ['r.*'], checkpoints: ['k.*'], inputs: [], companions: [], exclude: [] };
  const manifest = compileManifest({ ...patterns, newest: undefined });
  const ledger = { results: new Map([['r.known', { push: 'p1' }]]) };
  unsaved = new Unsaved({ root, manifest, ledger } as unknown as ConstructorParameters<typeof Unsaved>[0], {
    files: fileStates,
    watcher: { unclosed: () => unclosed },
  });
});
afterEach(() => {
  for (const fd of [root.fd, ...opened]) fs.closeSync(fd);
  fs.rmSync(root.path, { recursive: true });
  process.off('SIGIO', ignore);
});

const ignore = (): void => undefined;
const open = (name: string, text: string): void => {
  const fd = fs.openSync(path.join(root.path, name), 'a');
  fs.writeSync(fd, text);
  opened.push(fd);
};
/** As files.ts has it when a file was closed, and stored since unless `change` says otherwise. */
function closed(name: string, change: Partial<FileState> = {}): void {
  const before = newFileState(name, 'result', false);
  const fingerprint = factsBeneath(root, name);
  const durable = fingerprint && { fingerprint, md5: '0'.repeat(32), size: fingerprint.size };
  const fileState = { ...before, closes: 1, durableCloses: 1, durable, ...change };
  fileStates.set(fileState, before);
}

describe('what the store has not got', () => {
  it('is a new file that nobody has closed, once it holds something', () => {
    unclosed = ['r.new', 'r.empty', 'r.gone', 'other'];
    open('r.new', 'text');
    open('r.empty', '');
    open('other', 'text');
    expect(unsaved.look('result')).toEqual([{ path: 'r.new', open: true }]);
    expect(unsaved.look('checkpoint')).toEqual([]);
  });

  it('is a file that was closed and is on its way, and one that its writer has open', () => {
    closed('r.way', { pending: true, durable: undefined });
    closed('r.held', { pending: true, blocked: true, durable: undefined });
    expect(unsaved.look('result')).toEqual([
      { path: 'r.held', open: true },
      { path: 'r.way', open: false },
    ]);
  });

  it('is a stored file that was opened again and written to, until it is as it was stored', () => {
    fs.writeFileSync(path.join(root.path, 'r.log'), 'a');
    closed('r.log');
    expect(unsaved.look('result')).toEqual([]);
    open('r.log', 'b');
    expect(unsaved.look('result')).toEqual([{ path: 'r.log', open: true }]);
    closed('r.log', { closes: 2 });
    expect(unsaved.look('result')).toEqual([]);
  });

  it('is a file that was there before the task and that it appends to', () => {
    fs.writeFileSync(path.join(root.path, 'r.log'), 'a');
    closed('r.log', { closes: 0, durable: undefined, inherited: factsBeneath(root, 'r.log') });
    expect(unsaved.look('result')).toEqual([]);
    open('r.log', 'b');
    expect(unsaved.look('result')).toEqual([{ path: 'r.log', open: true }]);
  });

  it('is recorded with what was stored of it by then', () => {
    unclosed = ['r.known', 'r.new'];
    open('r.known', 'a');
    open('r.new', 'a');
    expect(unsaved.behind()).toEqual([
      { path: 'r.known', open: true, push: 'p1' },
      { path: 'r.new', open: true },
    ]);
  });

  it('is looked for among few files, however many there are', () => {
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
    const of = { root: counting, manifest, ledger: { results: new Map() } };
    unsaved = new Unsaved(of as unknown as ConstructorParameters<typeof Unsaved>[0], {
      files: fileStates,
      watcher: { unclosed: () => [] },
    });
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

  it('is a file that was changed without a close that its writer has given up: it is not open', () => {
    fs.writeFileSync(path.join(root.path, 'r.log'), 'a');
    closed('r.log');
    fs.writeFileSync(path.join(root.path, 'r.log'), 'changed');
    expect(unsaved.look('result')).toEqual([{ path: 'r.log', open: false }]);
  });

  it('is recorded of 1,000 results at most', () => {
    for (let n = 0; n <= 1000; n += 1) closed(`r.${n}`, { pending: true, durable: undefined });
    expect(unsaved.look('result')).toHaveLength(1001);
    expect(unsaved.behind()).toHaveLength(1000);
  });
});
