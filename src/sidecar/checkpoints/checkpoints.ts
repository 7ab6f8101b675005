// Checkpoint objects: pushes members as they close, each push as a new object, and remembers which object holds which
// state of which member. generations.ts makes committed sets of them.
import { newestOf } from '../../model/checkpoint/history.ts';
import {
  type FileFacts,
  type FileState,
  type Fingerprint,
  sameContentFingerprint,
  sameFingerprint,
} from '../../model/file/file-state.ts';
import { checkpointKey } from '../../model/format/keys.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import type { HeldState } from '../../read/reading.ts';
import { ABSENT } from '../../store/contract/store.ts';
import { sendFile, type SendJob, type Sent } from '../../upload/send.ts';
import type { PushHandle } from '../queue/turns.ts';
import type { Needs } from '../run/context.ts';
import { HeldStates } from './held-states.ts';

/** What it takes of the run. */
type Uses = Needs<'scope' | 'log' | 'attempt' | 'ledger' | 'sender' | 'now'>;

interface StoredMember {
  readonly file: StoredFile;
  readonly fingerprint: Fingerprint;
}

export class Checkpoints {
  readonly #context: Uses;
  readonly #stored = new Map<RelPath, StoredMember>();
  /** By the path the state that is being sent. */
  readonly #sending = new Map<RelPath, FileFacts>();
  /** What the set under way still has to send. */
  readonly held: HeldStates;
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
    this.held = new HeldStates(context.sender.root);
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
      sent = await this.held.whileRead(path, (held) => this.#send(path, how, { named, held }));
    } finally {
      this.#sending.delete(path);
      if (sent?.kind !== 'exists') for (const key of named) this.#objects.add(key);
    }
    this.#noteSent(path, sent, startedMs);
    return sent;
  }

  async #send(
    path: RelPath,
    how: PushHandle,
    { named, held }: { readonly named: string[]; readonly held: HeldState | undefined },
  ): Promise<Sent> {
    const job = { ...this.#job(path, how, named), held };
    const sent = await sendFile(this.#context.sender, job, how.signal);
    if (held === undefined) return sent;
    // Since then its name may have gone, which moves its ctime: it is the state that was held all the same.
    if (sent.kind === 'stored' || sent.kind === 'unchanged') return { ...sent, fingerprint: held.facts };
    // What stands at the path is judged like any other.
    this.held.release(path);
    return sent;
  }

  /** True while another state of the file than this one is being sent. */
  sendsOther(path: RelPath, state: Fingerprint): boolean {
    const sending = this.#sending.get(path);
    return sending !== undefined && !sameContentFingerprint(sending, state);
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
      case 'staged':
      case 'has-writer':
      case 'exists':
      case 'replaced-meanwhile':
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
      precondition: ABSENT,
      outlivesName: true,
      isStaged: (facts) => {
        this.#sending.set(path, facts);
        return false;
      },
    };
  }
}
