// What a resume lacks: real files in the work directory, a store in memory, records that the test writes.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { AttemptEnd } from '../../../src/model/checkpoint/history.ts';
import { unionOf } from '../../../src/model/checkpoint/history.ts';
import { resultKey } from '../../../src/model/format/keys.ts';
import type { Behind, CaptureRecord, StoredFile } from '../../../src/model/format/records.ts';
import type { Log } from '../../../src/log/log.ts';
import { findLacking, type LackingJob } from '../../../src/sidecar/startup/lacking.ts';
import { memoryStore, type MemoryStore } from '../../support/memory-store.ts';

const SCOPE = { taskName: 't', index: '0' };

let dir: string;
let fd: number;
let store: MemoryStore;
let warned: string[];
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'lacking-'));
  fd = fs.openSync(dir, 'r');
  store = memoryStore();
  warned = [];
});
afterEach(() => {
  fs.closeSync(fd);
  fs.rmSync(dir, { recursive: true });
});

/** What results lack when this attempt goes on from a set that is ahead of `behind`. */
async function lacks(
  behind: readonly Behind[],
  { results = [], last = 'failed' }: { results?: readonly StoredFile[]; last?: AttemptEnd['kind'] } = {},
): Promise<readonly string[]> {
  const record = { attempt: 2, kind: last, partials: [], kept: {}, generations: [] };
  const job: LackingJob = {
    store,
    scope: SCOPE,
    root: { fd, path: dir },
    history: unionOf([{ record: record as unknown as CaptureRecord, results }], undefined),
    log: { warn: (message: string) => void warned.push(message) } as unknown as Log,
    signal: new AbortController().signal,
  };
  const set = { attempt: 2, generation: 5, at: '2026-11-22T00:00:00.000Z', members: [], companions: [] };
  const lacking = await findLacking(job, { ...set, behind: [...behind] });
  return lacking.map(({ path: name, open, attempt }) => `${name} ${open} ${attempt}`);
}

const stored = (name: string, push: string, size = 3): StoredFile => ({
  path: name,
  kind: 'file',
  key: resultKey(name, SCOPE, false),
  push,
  attempt: 2,
  md5: '0'.repeat(32),
  size,
  compressed: false,
  mtimeNs: '0',
  mode: 0o644,
});
const put = (name: string, push: string): unknown =>
  store.objects.set(resultKey(name, SCOPE, true), { bytes: Buffer.from('x'), meta: { push } });

it('is what the set is ahead of, and is said by name', async () => {
  const behind = [
    { path: 'traj', open: true },
    { path: 'frame', open: false },
  ];
  expect(await lacks(behind)).toEqual(['traj true 2', 'frame false 2']);
  expect(warned).toEqual([
    'what attempt 2 had written to these results before checkpoint 2-5 is not stored, and the task will not write it again: traj (open), frame',
  ]);
});

it('is nothing of a file that still stands in the work directory', async () => {
  fs.writeFileSync(path.join(dir, 'traj'), 'all that was written');
  expect(await lacks([{ path: 'traj', open: true }])).toEqual([]);
  expect(warned).toEqual([]);
});

it('is what a local file lacks that is empty, or only what was stored of it before', async () => {
  fs.writeFileSync(path.join(dir, 'empty'), '');
  fs.writeFileSync(path.join(dir, 'part'), 'old');
  const behind = [
    { path: 'empty', open: true },
    { path: 'part', open: true, push: 'p1' },
  ];
  expect(await lacks(behind, { results: [stored('part', 'p1')] })).toEqual(['empty true 2', 'part true 2']);
});

it('is nothing of a result that was stored after the set', async () => {
  expect(await lacks([{ path: 'frame', open: false }], { results: [stored('frame', 'p1')] })).toEqual([]);
});

it('is nothing of a result that an attempt pushed and died before it could record it', async () => {
  put('frame', 'p2');
  put('same', 'p1');
  const behind = [
    { path: 'frame', open: false, push: 'p1' },
    { path: 'same', open: false, push: 'p1' },
  ];
  const results = [stored('frame', 'p1'), stored('same', 'p1')];
  expect(await lacks(behind, { results, last: 'checkpoint' })).toEqual(['same false 2']);
});

it('is not looked for in the store when each attempt has said its end', async () => {
  put('frame', 'of somebody else');
  expect(await lacks([{ path: 'frame', open: false }])).toEqual(['frame false 2']);
});
