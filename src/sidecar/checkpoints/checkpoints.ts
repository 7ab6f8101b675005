// Checkpoint objects: pushes members as they close, each push as a new object, and remembers which object holds which
// state of which member. generations.ts combines them into committed sets.
import { newestGeneration } from '../../model/checkpoint/history.ts';
import { firstNumber } from '../../model/checkpoint/takeovers.ts';
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
import { factsBeneath } from '../../native/files.ts';
import type { HeldState } from '../../read/reading.ts';
import { ABSENT } from '../../store/contract/store.ts';
import { sendFile, type SendJob, type Sent } from '../../upload/send.ts';
import type { PushHandle } from '../queue/turns.ts';
import type { Needs } from '../run/context.ts';
import { HeldStates } from './held-states.ts';

type CheckpointsContext = Needs<'scope' | 'log' | 'attempt' | 'ledger' | 'sender' | 'now'>;

interface StoredMember {
  readonly file: StoredFile;
  readonly fingerprint: Fingerprint;
}

export class Checkpoints {
  readonly #context: CheckpointsContext;
  readonly #stored = new Map<RelPath, StoredMember>();
  /** By path, the state that is being sent. */
  readonly #sending = new Map<RelPath, FileFacts>();
  /** The states that the set under way still has to send. */
  readonly held: HeldStates;
  /**
   * The objects of this attempt that may be in the store and are not being sent, and the objects that were restored.
   */
  readonly #objects = new Set<string>();
  /**
   * The number of the generation that is being made. It only grows, so that no number stands for two contents of a
   * path.
   */
  #generation: number;
  readonly #usedBy = new Map<RelPath, number>();
  bytesStored = 0;

  constructor(context: CheckpointsContext) {
    this.#context = context;
    this.held = new HeldStates(context.sender.root);
    const { takeovers, generations } = context.ledger;
    this.#generation =
      takeovers.at(-1)?.generation ?? firstNumber(newestGeneration(generations, context.attempt), false);
  }

  /** Restore has placed this member: its state on disk is that of a stored object. */
  noteRestored(file: StoredFile, fingerprint: Fingerprint): void {
    this.#stored.set(file.path, { file, fingerprint });
    this.#objects.add(file.key);
  }

  /** The object that holds exactly this state. */
  objectOf(path: RelPath, state: FileFacts): StoredFile | undefined {
    const stored = this.#stored.get(path);
    return stored !== undefined && sameFingerprint(stored.fingerprint, state) ? stored.file : undefined;
  }

  /** The member's object that was stored last. */
  newestOf(path: RelPath): StoredFile | undefined {
    return this.#stored.get(path)?.file;
  }

  /** True if the task has not removed the file, whatever it has written to it since. */
  isThere(path: RelPath): boolean {
    return factsBeneath(this.#context.sender.root, path) !== undefined;
  }

  /** The number of the generation that is being made. */
  get number(): number {
    return this.#generation;
  }

  /** The number of the generation that is committed now. The next push begins a new generation. */
  takeNumber(): number {
    const taken = this.#generation;
    this.#generation += 1;
    return taken;
  }

  /** The objects in the store, as far as this attempt knows, whether they are still needed or not. */
  get objects(): readonly string[] {
    return [...this.#objects];
  }

  /** The objects that hold the newest stored states of these files. */
  currentOf(paths: Iterable<RelPath>): ReadonlySet<string> {
    return new Set([...paths].flatMap((path) => this.#stored.get(path)?.file.key ?? []));
  }

  /** The objects are deleted. If a set needs a file whose object is gone, the file is sent again. */
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
    // Its name may have been removed since, which changes its ctime: it is still the state that was held.
    if (sent.kind === 'stored' || sent.kind === 'unchanged') return { ...sent, fingerprint: held.facts };
    // The file that is at the path now is judged like any other.
    this.held.release(path);
    return sent;
  }

  /** True while a state of the file other than this one is being sent. */
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
      // If the file was touched but not changed, the generation names the older object.
      baseline: before,
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
