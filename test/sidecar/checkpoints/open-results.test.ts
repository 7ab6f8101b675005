// Which open results are only appended to: by the places where real writers stand, which are this process.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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

beforeEach(() => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'open-results-'));
  root = { fd: fs.openSync(dir, 'r'), path: dir };
  opened = [];
  unsaved = [];
  fileStates = new Map();
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

function openResults(restored: readonly string[] = [], pids: readonly number[] = [process.pid]): OpenResults {
  const patterns = { results: ['r*'], checkpoints: [], inputs: [], companions: ['rc'], exclude: [] };
  const companions = restored.map((name): Companion => ({
    path: name,
    size: 1,
    mode: 0o644,
    segments: [],
    result: true,
  }));
  const generation: Generation = { attempt: 1, generation: 1, at: '', members: [], companions };
  return new OpenResults({
    context: { root, manifest: compileManifest({ ...patterns, newest: undefined }), resumed: undefined },
    unsaved: { look: () => unsaved.map((one) => ({ path: one, open: true })) },
    files: { get: (one: string) => fileStates.get(one) },
    witness: { pids: () => pids },
    restored: generation,
  } as unknown as Parts);
}

const found = (results: OpenResults, ended = false): readonly string[] =>
  results.look(ended).map((file) => file.path);

describe('an open result', () => {
  it('counts as only appended to when its writers are at its end, or can write nowhere else', () => {
    open('r-end', 'text');
    open('r-append', 'text', 'a');
    fs.writeSync(open('r-else', 'text'), 'at the start', 0);
    const results = openResults();
    expect(found(results)).toEqual(['r-end', 'r-append']);
  });

  it('does not when one of its writers is elsewhere', () => {
    open('r', 'a long text');
    opened.push(fs.openSync(path.join(root.path, 'r'), 'r+'));
    expect(found(openResults())).toEqual([]);
  });

  it('no longer does when its first bytes have changed', () => {
    const fd = open('r', 'head and');
    const results = openResults();
    fs.writeSync(fd, ' more');
    expect(found(results)).toEqual(['r']);
    fs.writeSync(fd, 'HEAD', 0);
    expect(found(results)).toEqual([]);
    fs.writeSync(fd, ' more', 8);
    expect(found(results)).toEqual([]);
  });

  it('does not if its writers are hidden, if it is empty, or if it is declared as a companion', () => {
    open('r', 'text');
    expect(found(openResults([], []))).toEqual([]);
    unsaved = [];
    open('r-empty', '');
    open('rc', 'text');
    expect(found(openResults())).toEqual([]);
  });

  it('still does at the end if its writer’s death has closed it', () => {
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

it('a file that was restored with the checkpoint stays unfinished until the task closes it, or writes elsewhere than at its end', () => {
  for (const name of ['r1', 'r2', 'r3']) fs.writeFileSync(path.join(root.path, name), 'text');
  const fileState = (name: string, closes: number): void => {
    fileStates.set(name, {
      ...newFileState(name, 'result'),
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

describe('a restored result whose writer died before anyone looked at it', () => {
  const dies = (name: string, text: string, since: number | undefined = 0): void => {
    fs.appendFileSync(path.join(root.path, name), text);
    const lastClose = { how: 'close', atMs: 1, evidence: 'doubtful', seq: 1, since } as const;
    fileStates.set(name, { ...newFileState(name, 'result'), closes: 2, lastClose });
  };
  beforeEach(() => fs.writeFileSync(path.join(root.path, 'r'), 'text'));

  it('counts as appended to at the end, as it was when it was stored', () => {
    const results = openResults(['r'], []);
    dies('r', ' more');
    expect(found(results)).toEqual([]);
    expect(found(results, true)).toEqual(['r']);
  });

  it('does not if its first bytes are others, or another file took its place', () => {
    fs.writeFileSync(path.join(root.path, 'r2'), 'text');
    const results = openResults(['r', 'r2'], []);
    dies('r', ' more');
    fs.writeFileSync(path.join(root.path, 'r'), 'TEXT more');
    fs.renameSync(path.join(root.path, 'r2'), path.join(root.path, 'r2-old'));
    dies('r2', 'text and more');
    expect(found(results, true)).toEqual([]);
  });

  it('does not if it was closed before, or was seen to be written elsewhere', () => {
    fs.writeFileSync(path.join(root.path, 'r2'), 'text');
    const results = openResults(['r', 'r2']);
    dies('r', ' more');
    const seen = fileStates.get('r') ?? newFileState('r', 'result');
    fileStates.set('r', { ...seen, lastClose: { how: 'close', atMs: 1, evidence: 'doubtful', seq: 2 } });
    fs.writeSync(open('r2', '', 'r+'), 'TE', 0);
    expect(found(results)).toEqual([]);
    for (const fd of opened.splice(0)) fs.closeSync(fd);
    unsaved = [];
    dies('r2', ' more');
    expect(found(results, true)).toEqual([]);
  });
});

it('a file that the task has closed and nobody has open is not an open result', () => {
  fs.writeFileSync(path.join(root.path, 'r'), 'text');
  const lastClose = { how: 'close', atMs: 1, evidence: 'doubtful', seq: 1 } as const;
  fileStates.set('r', { ...newFileState('r', 'result'), pending: true, closes: 1, lastClose });
  unsaved.push('r');
  expect(found(openResults())).toEqual([]);
});
