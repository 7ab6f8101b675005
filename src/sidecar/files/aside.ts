// First results whose close may be a death's: sent at once beside their key, so that they are safe while nobody knows
// whether they are whole, and given their good name when that is known. Nothing here ever stands under a good name
// before that.
import type { TrackEvent } from '../../core/decide.ts';
import { sameFingerprint, type Fingerprint } from '../../core/fingerprint.ts';
import { partialKey, resultKey } from '../../core/keys.ts';
import { reasonOf } from '../../core/errors.ts';
import { showPath, type RelPath } from '../../core/path.ts';
import type { StoredFile } from '../../core/records.ts';
import type { Track } from '../../core/track.ts';
import { writerOf } from '../../native/files.ts';
import { sendFile } from '../../push/send.ts';
import { statMember } from '../checkpoints/members.ts';
import { senderOf, type Context } from '../context.ts';
import { freeNumber } from '../end/partials.ts';
import { failedPush } from './failed-push.ts';
import type { PushHandle } from './pusher.ts';

/** Of one file no newer content is sent sooner: it may be closed, with doubt, many times a second. */
const LEAST_PAUSE_MS = 2000;

export interface SetAside {
  readonly file: StoredFile;
  /** Of the local file that holds the same bytes. */
  readonly fingerprint: Fingerprint;
}

export class Aside {
  readonly #context: Context;
  readonly #objects = new Map<RelPath, SetAside>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** Sends the content beside the result's key. Never rejects: what fails is tried again. */
  async push(track: Track, how: PushHandle): Promise<TrackEvent> {
    const { now } = this.#context;
    const startedMs = now();
    const setAside = (stored: boolean): TrackEvent => {
      const pauseMs = Math.max(LEAST_PAUSE_MS, now() - startedMs);
      return { kind: 'set-aside', stored, notBeforeMs: now() + pauseMs };
    };
    try {
      const sent = await this.#send(track.path, how);
      switch (sent.kind) {
        case 'stored':
          await this.#note({ file: { ...sent.file, suspect: true }, fingerprint: sent.fingerprint });
          return setAside(true);
        case 'unchanged':
          this.#sameBytes(track.path, sent.fingerprint);
          return setAside(true);
        case 'empty':
          return setAside(true);
        case 'torn':
        case 'exists':
          return setAside(false);
        case 'gone':
        case 'has-writer':
          return { kind: sent.kind };
        case 'refused':
          return sent;
      }
    } catch (error) {
      failedPush(this.#context, track, error, how.signal);
      return setAside(false);
    }
  }

  /**
   * Gives what is stored its good name, where the local file still is as it was read then and nothing stands under
   * that name; undefined: it has to be pushed. The caller notes it, and deletes the other once a record names this.
   */
  async promote(path: RelPath, signal: AbortSignal): Promise<SetAside | undefined> {
    const { store, scope, fence } = this.#context;
    const held = this.#current(path);
    if (held === undefined) return undefined;
    const { file, fingerprint } = held;
    const key = resultKey(path, scope, file.compressed);
    await fence.pass(signal);
    const taken = await Promise.all(
      [true, false].map((compressed) => store.head(resultKey(path, scope, compressed), signal)),
    );
    if (taken.some((head) => head !== undefined)) return undefined;
    await store.copy(file.key, key, signal);
    return { file: { ...file, key, suspect: undefined }, fingerprint };
  }

  /** It is not whole, as far as anybody knows: what is stored of it stays where it is. Undefined: it has to be sent. */
  keep(path: RelPath): SetAside | undefined {
    const held = this.#current(path);
    if (held === undefined) return undefined;
    this.#context.ledger.notePartial(held.file, false);
    this.forget(path);
    return held;
  }

  /** The key that nobody needs any more; undefined: none. */
  forget(path: RelPath): string | undefined {
    const key = this.#objects.get(path)?.file.key;
    this.#objects.delete(path);
    this.#context.ledger.dropAside(path);
    return key;
  }

  /**
   * The end, when nothing is sent any more: what still waits for its good name stays, recorded as partial; of what
   * the task has removed nothing stays.
   */
  async end(isOver: (path: RelPath) => boolean, signal: AbortSignal): Promise<void> {
    const { ledger, tidy, log } = this.#context;
    const gone: string[] = [];
    for (const [path, { file }] of this.#objects) {
      if (!isOver(path)) ledger.notePartial(file, false);
      const key = this.forget(path);
      if (isOver(path) && key !== undefined) gone.push(key);
    }
    await tidy.delete(gone, signal).catch((error: unknown) => {
      log.debug(`results that the task has removed stay beside their names: ${reasonOf(error)}`);
    });
  }

  async #send(path: RelPath, { spoolFirst, onSent, signal }: PushHandle): ReturnType<typeof sendFile> {
    const { attempt, scope, baselines } = this.#context;
    const before = this.#objects.get(path)?.file;
    const n = await freeNumber(this.#context, path, signal);
    const keyOf = (compressed: boolean): string => partialKey(path, scope, { attempt, n }, compressed);
    const job = { path, keyOf, baseline: before ?? baselines.get(path), spoolFirst, onSent };
    return sendFile(senderOf(this.#context), { ...job, ifAbsent: false, skipEmpty: true }, signal);
  }

  async #note(held: SetAside): Promise<void> {
    const { ledger, tidy, log, signal } = this.#context;
    const { path, key } = held.file;
    const before = this.#objects.get(path)?.file.key;
    this.#objects.set(path, held);
    ledger.noteAside(held.file);
    log.debug(`${showPath(path)} waits as ${key} until it is known to be whole`, {
      event: 'stored',
      role: 'partial',
      path,
      key,
      bytes: held.file.size,
    });
    if (before !== undefined && before !== key) await tidy.delete([before], signal);
  }

  #sameBytes(path: RelPath, fingerprint: Fingerprint): void {
    const held = this.#objects.get(path);
    if (held !== undefined) this.#objects.set(path, { ...held, fingerprint });
  }

  /** What is stored of the file, if it is what the file holds. */
  #current(path: RelPath): SetAside | undefined {
    const held = this.#objects.get(path);
    const now = statMember(this.#context.root, path);
    if (held === undefined || now === undefined || !sameFingerprint(held.fingerprint, now)) return undefined;
    try {
      return writerOf(this.#context.root, path) === 'none' ? held : undefined;
    } catch {
      return undefined; // gone, or no regular file any more
    }
  }
}
