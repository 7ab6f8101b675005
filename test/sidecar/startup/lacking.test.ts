// What a resume lacks: real files in the work directory, a store in memory, records that the test writes.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AttemptEnd } from '../../../src/model/checkpoint/history.ts';
import { unionOf } from '../../../src/model/checkpoint/history.ts';
import { partialKey, resultKey } from '../../../src/model/format/keys.ts';
import type { Behind, CaptureRecord, Generation, StoredFile } from '../../../src/model/format/records.ts';
import type { Log } from '../../../src/log/log.ts';
import { findLacking, type LackingJob } from '../../../src/sidecar/startup/lacking.ts';
import { memoryStore, type MemoryStore } from '../../support/memory-store.ts';

const SCOPE = { taskName: 't', index: '0' };

let dir: string;
let fd: number;
let store: MemoryStore;
let warned: string[];
/** What no record named. */
let found: readonly StoredFile[];
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

interface Before {
  readonly results?: readonly StoredFile[];
  readonly partials?: readonly StoredFile[];
  readonly last?: AttemptEnd['kind'];
  readonly marks?: Partial<Generation>;
  readonly inputs?: readonly string[];
}

/** What results lack when this attempt goes on from a set that is ahead of `behind`. */
async function lacks(
  aheadOf: readonly Behind[],
  { results = [], partials = [], last = 'failed', marks = {}, inputs = [] }: Before = {},
): Promise<readonly string[]> {
  const records = [1, 2, 3].map((attempt) => ({
    record: {
      attempt,
      runToken: `run-${attempt}`,
      kind: last,
      partials: attempt === 2 ? partials : [],
      kept: {},
      generations: [],
    } as unknown as CaptureRecord,
    results: results.filter((file) => file.attempt === attempt),
  }));
  const job: LackingJob = {
    store,
    scope: SCOPE,
    root: { fd, path: dir },
    history: unionOf(records, undefined),
    inputs: new Set(inputs),
    log: { warn: (message: string) => void warned.push(message) } as unknown as Log,
    signal: new AbortController().signal,
  };
  const set = { attempt: 2, generation: 5, at: '2026-11-22T00:00:00.000Z', members: [], companions: [] };
  const { lacking, unrecorded } = await findLacking(job, { ...set, behind: [...aheadOf], ...marks });
  found = unrecorded;
  return lacking.map(({ path: name, open, attempt, key, whole }) =>
    [name, open, attempt, ...(key === undefined ? [] : [key]), ...(whole === true ? ['whole'] : [])].join(
      ' ',
    ),
  );
}

/** What the set of attempt 2 is ahead of: a state of three bytes that was written at this ns. */
const behind = (name: string, open: boolean, mtimeNs = '10'): Behind => ({
  path: name,
  open,
  size: 3,
  mtimeNs,
});
const stored = (name: string, facts: Partial<StoredFile> = {}): StoredFile => ({
  path: name,
  kind: 'file',
  key: resultKey(name, SCOPE, false),
  push: 'p',
  attempt: 2,
  md5: '0'.repeat(32),
  size: 3,
  compressed: false,
  mtimeNs: '10',
  mode: 0o644,
  ...facts,
});
/** An object under the result's name that no record names; `run`: the token of the attempt that sent it. */
const put = (name: string, run: string, mtime: string, bytes = 'abc'): unknown =>
  store.objects.set(resultKey(name, SCOPE, false), {
    bytes: Buffer.from(bytes),
    meta: { run, mtime, push: 'sent', size: '3', mode: '644' },
  });
/** An object of attempt 2 beside the result's name. */
const partial = (name: string, mtimeNs = '10'): StoredFile =>
  stored(name, { key: `${name}.0.partial-2`, mtimeNs, suspect: true });

it('is a result that the set is ahead of, and a warning names it', async () => {
  expect(await lacks([behind('traj', true), behind('frame', false)])).toEqual([
    'traj true 2',
    'frame false 2',
  ]);
  expect(warned).toEqual([
    'what attempt 2 had written to these results before checkpoint 2-5 is not stored, and the task will not write it again: traj (open), frame',
  ]);
});

it('is no file that is still in the work directory', async () => {
  fs.writeFileSync(path.join(dir, 'traj'), 'all that was written');
  expect(await lacks([behind('traj', true)])).toEqual([]);
  expect(warned).toEqual([]);
});

it('is a file that this start has fetched as an input', async () => {
  fs.writeFileSync(path.join(dir, 'state'), 'an older state');
  expect(await lacks([behind('state', true)], { inputs: ['state'] })).toEqual(['state true 2']);
});

it('is a file that a later attempt has stored since, as that may be only the rest of it', async () => {
  const results = [stored('traj', { attempt: 3 }), stored('frame', { attempt: 3 })];
  expect(await lacks([behind('traj', true), behind('frame', false)], { results })).toEqual([
    'traj true 2',
    'frame false 2',
  ]);
  expect(warned.join('')).not.toContain('frame');
  put('traj', 'run-3', '11');
  expect(await lacks([behind('traj', true)], { last: 'checkpoint' })).toEqual(['traj true 2']);
});

it('is a local file that is empty, or that holds only what was stored of it before', async () => {
  fs.writeFileSync(path.join(dir, 'empty'), '');
  fs.writeFileSync(path.join(dir, 'part'), 'old');
  const results = [stored('part', { mtimeNs: '9' })];
  expect(await lacks([behind('empty', true), behind('part', true)], { results })).toEqual([
    'empty true 2',
    'part true 2',
  ]);
});

it.each([
  ['that state', {}, false],
  ['what the same attempt put there after the set', { mtimeNs: '9', push: 'later' }, false],
  ['one of a later attempt', { attempt: 3, mtimeNs: '1' }, false],
  ['what stood there before the set, with a newer time', { mtimeNs: '11', push: 'before' }, true],
  ['what stood there before the set, with the same time', { push: 'before' }, true],
  ['one of an earlier attempt', { attempt: 1, mtimeNs: '11' }, true],
])('when a record names %s of the result: %o', async (_, facts: Partial<StoredFile>, isLacking) => {
  const expected = isLacking || facts.attempt === 3 ? ['frame false 2'] : [];
  const state = { ...behind('frame', false), over: ['before'] };
  expect(await lacks([state], { results: [stored('frame', facts)] })).toEqual(expected);
  expect(warned).toHaveLength(isLacking ? 1 : 0);
});

it.each([
  ['that state', 'run-2', '10', false],
  ['an older one of the same attempt', 'run-2', '9', true],
  ['what an earlier attempt stored', 'run-1', '11', true],
  ['what a later attempt stored', 'run-3', '1', false],
  ['what nobody knows', 'run-x', '11', true],
])(
  'when an attempt pushed %s and died before it could record it (%s, %s): %s',
  async (_, run, mtime, isLacking) => {
    put('frame', run, mtime);
    const results = [stored('frame', { mtimeNs: '8' })];
    const expected = isLacking || run === 'run-3' ? ['frame false 2'] : [];
    expect(await lacks([behind('frame', false)], { results, last: 'checkpoint' })).toEqual(expected);
    expect(warned).toHaveLength(isLacking ? 1 : 0);
    // The task will not write it again: so records name it from now on, with the md5 that its metadata do not have.
    const attempt = Number(run.at(-1));
    const whole = { push: 'sent', attempt, size: 3, md5: '900150983cd24fb0d6963f7d28e17f72', mtimeNs: mtime };
    expect(found).toEqual(isLacking ? [] : [expect.objectContaining(whole)]);
  },
);

it('is missing when the object under its name was cut short', async () => {
  put('frame', 'run-2', '10', 'ab');
  const none = { last: 'checkpoint' } as const;
  expect(await lacks([behind('frame', false)], none)).toEqual(['frame false 2']);
  expect(found).toEqual([]);
});

it('is not searched for in the store when each attempt has recorded its end', async () => {
  put('frame', 'run-2', '10');
  expect(await lacks([behind('frame', false)])).toEqual(['frame false 2']);
});

describe('an object beside the result’s name', () => {
  const followed = [{ ...behind('frame', false), followed: true }];

  it('is whole when a good set has followed it, and no message names it', async () => {
    expect(await lacks(followed, { partials: [partial('frame')] })).toEqual([
      'frame false 2 frame.0.partial-2 whole',
    ]);
    expect(warned).toEqual([]);
  });

  it.each([
    ['a set that a death may have closed', { suspect: true }, '10'],
    ['a set whose attempt never said that nobody had died', { unproven: true }, '10'],
    ['a set that followed another state of it', {}, '9'],
  ])('is named by its key beside %s', async (_, marks, mtimeNs) => {
    expect(await lacks(followed, { partials: [partial('frame', mtimeNs)], marks })).toEqual([
      'frame false 2 frame.0.partial-2',
    ]);
    expect(warned).toEqual([
      'what attempt 2 had written to these results before checkpoint 2-5 is stored only in a state that may be half-written, and the task will not write it again: frame: frame.0.partial-2',
    ]);
  });

  it('is the newest of several states that no record names', async () => {
    for (let n = 0; n <= 10; n += 1) {
      const key = partialKey('frame', SCOPE, { attempt: 2, n }, false);
      store.objects.set(key, { bytes: Buffer.from('x'), meta: { run: 'run-2', mtime: `${n}`, size: '1' } });
    }
    expect(await lacks([behind('frame', false)], { last: 'checkpoint' })).toEqual([
      'frame false 2 frame.0.partial-2.~10~',
    ]);
  });
});
