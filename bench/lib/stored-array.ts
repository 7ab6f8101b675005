// What an array leaves in its store, for the commands that read all of it: each index was preempted once, and is done;
// it has two results of 1 KiB and one checkpoint. Nothing is run for it: the server plants these objects itself.
import { createHash } from 'node:crypto';
import { checkpointKey, recordKey, resultKey } from '../../src/model/format/keys.ts';
import {
  type CaptureRecord,
  type RecordKind,
  type StoredFile,
  textWithSum,
} from '../../src/model/format/records.ts';

export interface Planted {
  readonly key: string;
  readonly bytes: Uint8Array;
  /** `x-amz-meta-run`: whose it is. */
  readonly run: string;
}

const TASK = 'bench';
const RESULTS = ['energy.dat', 'forces.dat'];
const FILE_BYTES = 1024;
/** Attempt, sequence number and kind of each record of an index. */
const RECORDS: readonly (readonly [attempt: number, seq: number, kind: RecordKind])[] = [
  [1, 0, 'started'],
  [1, 1, 'started'],
  [1, 6, 'checkpoint'],
  [1, 8, 'preempted'],
  [2, 0, 'started'],
  [2, 1, 'started'],
  [2, 4, 'checkpoint'],
  [2, 5, 'done'],
];

/** All objects of so many indices, by the keys that they have below the store's prefix. */
export function* storedArray(indices: number): Generator<Planted> {
  for (let n = 0; n < indices; n += 1) {
    const scope = { taskName: TASK, index: String(n) };
    const at = { attempt: 2, generation: 1 };
    const checkpoint = fileOf('k.chk', checkpointKey('k.chk', scope, at, false), n);
    const results = RESULTS.map((name) => fileOf(name, resultKey(name, scope, false), n));
    for (const { key, bytes, run } of [checkpoint, ...results]) yield { key, bytes, run };
    const stored = {
      results: results.map(({ file }) => file),
      generations: [{ ...at, at: '2026-11-22T11:30:00.000Z', members: [checkpoint.file], companions: [] }],
    };
    for (const [attempt, seq, kind] of RECORDS) {
      const text = textWithSum({
        ...recordOf(scope.index, { attempt, seq, kind }),
        ...(kind === 'done' ? stored : {}),
      });
      yield { key: recordKey(scope, attempt, seq, kind), bytes: Buffer.from(text), run: runOf(n, attempt) };
    }
  }
}

/** One file whose content is its own, as the record tells it. */
function fileOf(path: string, key: string, n: number): Planted & { readonly file: StoredFile } {
  const bytes = Buffer.alloc(FILE_BYTES, `${path} of ${n} `);
  const md5 = createHash('md5').update(bytes).digest('hex');
  const named = { path, kind: 'file', key, push: `push-${n}`, attempt: 2 } as const;
  const mtimeNs = `17951874365${String(n).padStart(8, '0')}`;
  const file = { ...named, md5, size: FILE_BYTES, compressed: false, mtimeNs, mode: 0o640 };
  return { key, bytes, run: runOf(n, named.attempt), file };
}

function runOf(index: number | string, attempt: number): string {
  return `run-${index}-${attempt}`;
}

function recordOf(
  index: string,
  at: Pick<CaptureRecord, 'attempt' | 'seq' | 'kind'>,
): Parameters<typeof textWithSum>[0] {
  return {
    format: 1,
    ...at,
    push: `push-${index}-${at.attempt}-${at.seq}`,
    capture: 'bench',
    at: '2026-11-22T12:00:00.000Z',
    task: TASK,
    index,
    runToken: runOf(index, at.attempt),
    host: 'node17',
    argv: ['task'],
    startedAt: '2026-11-22T11:00:00.000Z',
    ...(at.kind === 'done' ? { end: { code: 0, status: 0 } } : {}),
  };
}
