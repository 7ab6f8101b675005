// An index with all that attempts leave in a store, killed ones too: what commands that read, check and delete are shown.
import { createHash } from 'node:crypto';
import { checkpointKey, keptKey, partialKey, resultKey, segmentKey } from '../../src/model/format/keys.ts';
import type { Companion, Generation, RecordKind, StoredFile } from '../../src/model/format/records.ts';
import { loadZstd } from '../../src/native/zstd.ts';
import type { StoreOfRecords } from './store-of-records.ts';

const zstd = loadZstd();

export function frameOf(content: Buffer): Buffer {
  if (zstd === undefined) throw new Error('no zstd');
  const frame = Buffer.alloc(zstd.compressBound(content.length));
  return frame.subarray(0, zstd.compress(frame, content, 1));
}

/** Puts objects of one attempt of an index, with the metadata that a push gives them. */
export class Pushing {
  readonly #stored: StoreOfRecords;
  readonly scope: { readonly taskName: string; readonly index: string };
  readonly attempt: number;

  constructor(stored: StoreOfRecords, index: string, attempt: number, taskName = 't') {
    this.#stored = stored;
    this.scope = { taskName, index };
    this.attempt = attempt;
  }

  /** `CAPTURED_RUN` of the attempt. */
  get runToken(): string {
    return `run-${this.scope.taskName}-${this.scope.index}-${this.attempt}`;
  }

  async put(key: string, content: Buffer, path: string): Promise<StoredFile> {
    const compressed = key.endsWith('.zst');
    const body = compressed ? frameOf(content) : content;
    const push = `push of ${key}`;
    const meta = { push, run: this.runToken, index: this.scope.index, capture: '0.1.0' };
    await this.#stored.store.put(key, body, { meta });
    return {
      path,
      kind: 'file',
      key,
      push,
      attempt: this.attempt,
      md5: createHash('md5').update(content).digest('hex'),
      size: content.length,
      storedSize: body.length,
      compressed,
      mtimeNs: '1795187436573462462',
      mode: 0o640,
    };
  }

  result(path: string, text: string, compressed = false): Promise<StoredFile> {
    return this.put(resultKey(path, this.scope, compressed), Buffer.from(text), path);
  }

  partial(path: string, text: string): Promise<StoredFile> {
    const at = { attempt: this.attempt, n: 0 };
    return this.put(partialKey(path, this.scope, at, false), Buffer.from(text), path);
  }

  older(path: string, n: number): Promise<StoredFile> {
    return this.put(keptKey(path, this.scope, n, false), Buffer.from(`older ${n}`), path);
  }

  member(path: string, generation: number): Promise<StoredFile> {
    const key = checkpointKey(path, this.scope, { attempt: this.attempt, generation }, false);
    return this.put(key, Buffer.from(`${path} at ${this.attempt}-${generation}`), path);
  }

  /** Of two segments. */
  async companion(path: string, generation: number): Promise<Companion> {
    const segments = [];
    for (const [segment, text] of ['first part\n', 'second part\n'].entries()) {
      const at = { attempt: this.attempt, generation, segment: segment + 1 };
      const { key, push, size, md5, compressed } = await this.put(
        segmentKey(path, this.scope, at, true),
        Buffer.from(text),
        path,
      );
      segments.push({ key, push, size, md5, compressed, first: segment * 11 });
    }
    return { path, size: 23, mode: 0o644, segments };
  }

  async generation(generation: number, withCompanion = false): Promise<Generation> {
    const members = [await this.member('k.chk', generation)];
    const companions = withCompanion ? [await this.companion('md.log', generation)] : [];
    return { attempt: this.attempt, generation, at: '2026-11-22T11:30:00.000Z', members, companions };
  }

  record(seq: number, kind: RecordKind, more: object = {}, atMs?: number): void {
    const { index, taskName: task } = this.scope;
    const { attempt, runToken } = this;
    this.#stored.record({ index, task, attempt, seq, kind, runToken, ...more }, atMs);
  }
}

export interface Ending {
  readonly kind: RecordKind;
  /** Of `failed`. */
  readonly status?: number;
}

/**
 * Attempt 1 was killed, and left a set, an orphaned object of the next one, and half a result that no record names.
 * Attempt 2 resumed, committed two sets, and ended as `how` says. Beside them stand an input that somebody uploaded, and
 * the whole of another task's index of the same number.
 */
export async function leaveBehind(stored: StoreOfRecords, index: string, how: Ending): Promise<void> {
  const killed = new Pushing(stored, index, 1);
  const first = await killed.generation(1);
  killed.record(0, 'started');
  killed.record(1, 'started');
  killed.record(2, 'checkpoint', { generations: [first] });
  await killed.member('k.chk', 2);
  await killed.partial('r.dat', 'half of it');
  const ended = new Pushing(stored, index, 2);
  const generations = [await ended.generation(2, true), await ended.generation(1), first];
  const results = [await ended.result('r.dat', 'whole\n'), await ended.result('out/t.log', 'text\n', true)];
  await ended.older('r.dat', 1);
  const partials = [await ended.partial('x.dat', 'half of x')];
  ended.record(0, 'started');
  ended.record(1, 'started', { generations: [first] });
  ended.record(2, 'checkpoint', { generations, results });
  const end = { code: how.status ?? 0, status: how.status ?? 0 };
  ended.record(3, how.kind, { ...how, generations, results, partials, kept: { 'r.dat': 1 }, end });
  stored.put(`in.dat.${index}`, 'an input');
}

/** The same index of another task that shares the prefix. */
export async function leaveOther(stored: StoreOfRecords, index: string): Promise<readonly string[]> {
  const other = new Pushing(stored, index, 1, 'u');
  const generations = [await other.generation(1)];
  const results = [await other.result('u.dat', 'of u')];
  const partials = [await other.partial('u.dat', 'half of u')];
  const older = await other.older('u.dat', 1);
  other.record(0, 'started');
  other.record(1, 'done', { generations, results, partials, kept: { 'u.dat': 1 } });
  return [...results, ...partials, older, ...(generations[0]?.members ?? [])].map(({ key }) => key);
}
/** All keys but those of records. */
export async function objectsOf({ store }: StoreOfRecords): Promise<readonly string[]> {
  return (await keysOf(store)).filter((key) => !key.startsWith('.capture/'));
}

export async function recordsOf({ store }: StoreOfRecords, task = 't'): Promise<readonly string[]> {
  return (await keysOf(store)).filter((key) => key.startsWith(`.capture/${task}/`));
}

async function keysOf(store: StoreOfRecords['store']): Promise<readonly string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list('')) keys.push(key);
  return keys;
}
