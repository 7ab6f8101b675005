// Checkpoint objects: pushes members as they close, each push as a new object, and remembers which object holds which
// state of which member. generations.ts makes committed sets of them.
import { newestOf } from '../../model/checkpoint/history.ts';
import {
  type FileFacts,
  type FileState,
  type Fingerprint,
  sameFingerprint,
} from '../../model/file/file-state.ts';
import { checkpointKey } from '../../model/format/keys.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { sendFile, type SendJob, type Sent } from '../../upload/send.ts';
import type { PushHandle } from '../queue/turns.ts';
import type { Needs } from '../run/context.ts';

/** What it takes of the run. */
type Uses = Needs<'scope' | 'log' | 'attempt' | 'ledger' | 'sender' | 'now'>;

interface StoredMember {
  readonly file: StoredFile;
  readonly fingerprint: Fingerprint;
}

export class Checkpoints {
  readonly #context: Uses;
  readonly #stored = new Map<RelPath, StoredMember>();
  /**
   * The objects of this attempt that may be in the store and are not on their way there, and those that were
   * restored.
   */
  readonly #objects = new Set<string>();
  /** Number of the generation that is being made. It only grows: no number stands for two contents of a path. */
  #generation: number;
  readonly #usedBy = new Map<RelPath, number>();
  bytesStored = 0;

  constructor(context: Uses) {
    this.#context = context;
    this.#generation = 1 + newestOf(context.ledger.generations, context.attempt);
  }

  /** Restore placed this member: its state on disk is that of an object that is already stored. */
  noteRestored(file: StoredFile, fingerprint: Fingerprint): void {
    this.#stored.set(file.path, { file, fingerprint });
    this.#objects.add(file.key);
  }

  /** The object that holds exactly this state. */
  objectOf(path: RelPath, state: FileFacts): StoredFile | undefined {
    const stored = this.#stored.get(path);
    return stored !== undefined && sameFingerprint(stored.fingerprint, state) ? stored.file : undefined;
  }

  /** The object of a member that was stored last. */
  newestOf(path: RelPath): StoredFile | undefined {
    return this.#stored.get(path)?.file;
  }

  /** Number of the generation that is being made. */
  get number(): number {
    return this.#generation;
  }

  /** The number for the generation that is committed now; the next push begins a new one. */
  takeNumber(): number {
    const taken = this.#generation;
    this.#generation += 1;
    return taken;
  }

  /** The objects in the store, as far as this attempt knows. It does not know which are still needed. */
  get objects(): readonly string[] {
    return [...this.#objects];
  }

  /** The objects that hold the newest stored states of these files. */
  currentOf(paths: Iterable<RelPath>): ReadonlySet<string> {
    return new Set([...paths].flatMap((path) => this.#stored.get(path)?.file.key ?? []));
  }

  /** They are deleted. If a set needs a file whose object is gone, the file is sent again. */
  forget(keys: readonly string[]): void {
    const gone = new Set(keys);
    for (const key of keys) this.#objects.delete(key);
    for (const [path, { file }] of this.#stored) if (gone.has(file.key)) this.#stored.delete(path);
  }

  async push({ path }: FileState, how: PushHandle): Promise<Sent> {
    const startedMs = this.#context.now();
    const named: string[] = [];
    let sent: Sent | undefined;
    try {
      sent = await sendFile(this.#context.sender, this.#job(path, how, named), how.signal);
    } finally {
      if (sent?.kind !== 'exists') for (const key of named) this.#objects.add(key);
    }
    this.#noteSent(path, sent, startedMs);
    return sent;
  }

  #noteSent(path: RelPath, sent: Sent, startedMs: number): void {
    const { now, log } = this.#context;
    switch (sent.kind) {
      case 'stored': {
        this.#stored.set(path, sent);
        this.bytesStored += sent.file.size;
        const tookMs = now() - startedMs;
        const { key, size: bytes } = sent.file;
        log.debug(`stored checkpoint ${showPath(path)} as ${key} in ${tookMs} ms`, {
          event: 'stored',
          role: 'checkpoint',
          path,
          key,
          bytes,
          ms: tookMs,
        });
        break;
      }
      case 'unchanged': {
        const before = this.#stored.get(path);
        if (before !== undefined)
          this.#stored.set(path, { file: before.file, fingerprint: sent.fingerprint });
        break;
      }
      case 'gone':
        this.#stored.delete(path);
        log.debug(`checkpoint ${showPath(path)} was removed by the task`, { event: 'withdrawn', path });
        break;
      case 'refused':
        log.warn(`checkpoint ${showPath(path)} is not stored: ${sent.why}`, { event: 'not-stored', path });
        break;
      case 'torn':
      case 'held':
      case 'has-writer':
      case 'exists':
    }
  }

  #job(path: RelPath, { spoolFirst, onSent }: PushHandle, named: string[]): SendJob {
    const before = this.#stored.get(path)?.file;
    return {
      path,
      keyOf: (compressed) => {
        if ((this.#usedBy.get(path) ?? 0) >= this.#generation) this.#generation += 1;
        this.#usedBy.set(path, this.#generation);
        const at = { attempt: this.#context.attempt, generation: this.#generation };
        const key = checkpointKey(path, this.#context.scope, at, compressed);
        named.push(key);
        return key;
      },
      // If it was touched but not changed, the generation names the older object.
      baseline: before === undefined ? undefined : { md5: before.md5, size: before.size },
      spoolFirst,
      urgent: true,
      onSent,
      ifAbsent: true,
    };
  }
}
