// Which open results are only appended to: by the places where real writers stand, which are this process.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Evidence } from '../../../src/model/file/evidence.ts';
import { type FileState, newFileState } from '../../../src/model/file/file-state.ts';
import { compileManifest } from '../../../src/model/file/manifest.ts';
import type { Companion, Generation } from '../../../src/model/format/records.ts';
import { factsBeneath } from '../../../src/native/files.ts';
import { OpenResults } from '../../../src/sidecar/checkpoints/open-results.ts';

type Parts = ConstructorParameters<typeof OpenResults>[0];

let root: { fd: number; path: string };
let opened: number[];
let unsaved: string[];
let fileStates: Map<string, FileState>;
let suspects: Map<string, string>;
/** When the last checkpoint was closed. */
const CHECKPOINT_MS = 5000;

beforeEach(() => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'open-results-'));
  root = { fd: fs.openSync(dir, 'r'), path: dir };
  opened = [];
  unsaved = [];
  fileStates = new Map();
  suspects = new Map();
});
afterEach(() => {
  for (const fd of [root.fd, ...opened]) fs.closeSync(fd);
  fs.rmSync(root.path, { recursive: true });
});

function open(name: string, text: string, flags = 'w'): number {
  const fd = fs.openSync(path.join(root.path, name), flags);
  fs.writeSync(fd, text);
  opened.push(fd);
  unsaved.push(name);
  return fd;
}

function openResults(
  restored: readonly string[] = [],
  pids: readonly number[] = [process.pid],
  closed?: boolean,
): OpenResults {
  const patterns = { results: ['r*'], checkpoints: [], inputs: [], companions: ['rc'], exclude: [] };
  const companions = restored.map((name): Companion => ({
    path: name,
    size: 1,
    mode: 0o644,
    segments: [],
    result: true,
    closed,
  }));
  const generation: Generation = { attempt: 1, generation: 1, at: '', members: [], companions };
  return new OpenResults({
    context: { root, manifest: compileManifest({ ...patterns, newest: undefined }), resumed: undefined },
    unsaved: {
      look: () => unsaved.map((one) => ({ path: one, open: true })),
      checkpointAtMs: CHECKPOINT_MS,
    },
    suspects,
    files: { get: (one: string) => fileStates.get(one) },
    witness: { pids: () => pids },
    restored: generation,
  } as unknown as Parts);
}

const found = (results: OpenResults, ended = false): readonly string[] =>
  results.look(ended).map((file) => file.path);

describe('an open result', () => {
  it('is only appended to when its writers stand at its end, or can write nowhere else', () => {
    open('r-end', 'text');
    open('r-append', 'text', 'a');
    fs.writeSync(open('r-else', 'text'), 'at the start', 0);
    const results = openResults();
    expect(found(results)).toEqual(['r-end', 'r-append']);
  });

  it('is not when one of its writers stands elsewhere', () => {
    open('r', 'a long text');
    opened.push(fs.openSync(path.join(root.path, 'r'), 'r+'));
    expect(found(openResults())).toEqual([]);
  });

  it('is not any more when its first bytes have changed', () => {
    const fd = open('r', 'head and');
    const results = openResults();
    fs.writeSync(fd, ' more');
    expect(found(results)).toEqual(['r']);
    fs.writeSync(fd, 'HEAD', 0);
    expect(found(results)).toEqual([]);
    fs.writeSync(fd, ' more', 8);
    expect(found(results)).toEqual([]);
  });

  it('is not where nobody can see its writers, nor when it is empty or declared as a companion', () => {
    open('r', 'text');
    expect(found(openResults([], []))).toEqual([]);
    unsaved = [];
    open('r-empty', '');
    open('rc', 'text');
    expect(found(openResults())).toEqual([]);
  });

  it('that its writer’s death has closed is still one at the end', () => {
    const fd = open('r', 'text');
    const results = openResults();
    expect(found(results)).toEqual(['r']);
    fs.closeSync(fd);
    opened.pop();
    unsaved = [];
    expect(found(results, true)).toEqual(['r']);
    expect(found(results)).toEqual([]);
    expect(found(results, true)).toEqual([]);
  });
});

it('what came with the checkpoint stays one until the task closes it, or writes elsewhere than at its end', () => {
  for (const name of ['r1', 'r2', 'r3']) fs.writeFileSync(path.join(root.path, name), 'text');
  const fileState = (name: string, closes: number): void => {
    fileStates.set(name, {
      ...newFileState(name, 'result', false),
      closes,
      inherited: factsBeneath(root, name),
    });
  };
  fileState('r1', 0);
  fileState('r2', 1);
  fileState('r3', 0);
  const results = openResults(['r1', 'r2', 'r3', 'r-gone']);
  expect(results.unfinished()).toEqual(['r1', 'r3']);
  fs.writeSync(open('r3', '', 'r+'), 'TEXT and', 0);
  expect(found(results)).toEqual(['r1']);
});

describe('a result that was closed before the last checkpoint', () => {
  const closed = (name: string, change: Partial<FileState> = {}, bytes = 4): void => {
    fs.writeFileSync(path.join(root.path, name), '');
    fs.truncateSync(path.join(root.path, name), bytes);
    const lastClose = { how: 'close', atMs: CHECKPOINT_MS, evidence: 'doubtful' } as const;
    fileStates.set(name, {
      ...newFileState(name, 'result', false),
      pending: true,
      closes: 1,
      lastClose,
      ...change,
    });
    unsaved.push(name);
  };
  const at = (atMs: number, evidence: Evidence): Partial<FileState> => ({
    lastClose: { how: 'close', atMs, evidence },
  });

  it('is taken along while nobody knows whether a death closed it, and when it is stored only beside its key', () => {
    closed('r-waits');
    closed('r-is-sent', { pushing: true });
    closed('r-replaces', { replaces: true, ...at(CHECKPOINT_MS, 'unknown') });
    closed('r-partial', { pending: false });
    suspects.set('r-partial', 'it may be half-written');
    expect(openResults().look(false)).toMatchObject(
      ['r-waits', 'r-is-sent', 'r-replaces', 'r-partial'].map((name) => ({ path: name, closed: true })),
    );
  });

  it('is not when it was closed later, is sent anyway, is stored, or somebody has it open', () => {
    closed('r-later', at(CHECKPOINT_MS + 1, 'doubtful'));
    closed('r-clean', at(CHECKPOINT_MS, 'clean'));
    closed('r-first', at(CHECKPOINT_MS, 'unknown'));
    closed('r-stored', { pending: false });
    closed('r-blocked', { blocked: true });
    expect(found(openResults())).toEqual([]);
  });

  it('is not when the checkpoint would wait for very many bytes', () => {
    closed('r1', {}, 5 * 2 ** 20);
    closed('r2', {}, 5 * 2 ** 20);
    expect(found(openResults())).toEqual(['r1']);
  });

  it('and came with it stays one until the task goes on with it, and is no unfinished part', () => {
    for (const name of ['r1', 'r2']) {
      fs.writeFileSync(path.join(root.path, name), 'text');
      fileStates.set(name, { ...newFileState(name, 'result', false), inherited: factsBeneath(root, name) });
    }
    const results = openResults(['r1', 'r2'], [], true);
    expect(results.unfinished()).toEqual([]);
    fs.appendFileSync(path.join(root.path, 'r2'), ' more');
    expect(results.look(false)).toMatchObject([{ path: 'r1', closed: true }]);
  });
});
