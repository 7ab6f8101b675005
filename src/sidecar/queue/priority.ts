// The pushes under way, and how fast their bytes go. With a deadline it also says which file is still begun and which
// push is given up, by the rules of model/file/deadline; without one every push is begun and none is given up.
import { isBegun, LinkRate, PART_BYTES, type Sending, tooLate } from '../../model/file/deadline.ts';
import type { FileRole, FileState } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import type { FileKey, PushHandle } from './pusher.ts';

interface UnderWay {
  readonly role: FileRole;
  readonly sizeBytes: number;
  readonly stop: AbortController;
  sentBytes: number;
}

export class Priority {
  readonly #sizeOf: (path: RelPath) => number;
  readonly #now: () => number;
  readonly #rate = new LinkRate();
  readonly #underWay = new Map<FileKey, UnderWay>();
  #deadlineMs: number | undefined;
  /** Stored bytes for each byte of a file. */
  #ratio = 1;

  /** `sizeOf`: size of the local file in bytes; 0 if it is gone. */
  constructor(sizeOf: (path: RelPath) => number, now: () => number) {
    this.#sizeOf = sizeOf;
    this.#now = now;
  }

  /** What is not sent by then is never sent, ms since the epoch; undefined: there is time. */
  set deadlineMs(atMs: number | undefined) {
    this.#deadlineMs = atMs;
  }

  sending(fileState: Pick<FileState, 'path' | 'role'> | undefined): Sending {
    if (fileState === undefined) return { role: 'result', bytes: 0 };
    return { role: fileState.role, bytes: this.#sizeOf(fileState.path) * this.#ratio };
  }

  /** How many ms it takes, as measured, to send so many bytes of files; undefined if nothing was measured. */
  takesMs(fileBytes: number): number | undefined {
    const rate = this.#rate.bytesPerMs(this.#now());
    return rate === undefined ? undefined : (fileBytes * this.#ratio) / rate;
  }

  /** With a deadline a checkpoint does not wait for other pushes to end. */
  isUrgent(role: FileRole): boolean {
    return this.#deadlineMs !== undefined && role === 'checkpoint';
  }

  isBegun(next: Sending): boolean {
    return (
      this.#deadlineMs === undefined ||
      isBegun(
        next,
        [...this.#underWay.values()].map((push) => this.#left(push)),
        this.#window(this.#deadlineMs),
      )
    );
  }

  began(key: FileKey, path: RelPath, role: FileRole, spoolFirst: boolean): PushHandle {
    const push = { role, sizeBytes: this.#sizeOf(path), stop: new AbortController(), sentBytes: 0 };
    this.#underWay.set(key, push);
    this.#rate.began(this.#now());
    this.giveUpLate();
    return {
      spoolFirst,
      signal: push.stop.signal,
      onSent: (bytes) => {
        push.sentBytes += bytes;
        this.#rate.sent(bytes, this.#now());
        this.giveUpLate();
      },
    };
  }

  ended(key: FileKey, isStored: boolean): void {
    const push = this.#underWay.get(key);
    if (push === undefined) return;
    this.#underWay.delete(key);
    this.#rate.ended(this.#now());
    if (isStored && push.sizeBytes > 0 && push.sentBytes > 0) {
      this.#ratio = (this.#ratio + Math.min(1, push.sentBytes / push.sizeBytes)) / 2;
    }
  }

  /** Gives up results that cannot be sent in time, in favour of those that can. */
  giveUpLate(): void {
    if (this.#deadlineMs === undefined) return;
    const pushes = [...this.#underWay.values()].map((push) => ({ ...this.#left(push), stop: push.stop }));
    // The measure lacks what the store has not acknowledged: right after a burst began, nearly all of it.
    const unheardBytes = pushes.reduce((sum, { bytes }) => sum + Math.min(bytes, PART_BYTES), 0);
    const nowMs = this.#now();
    const bytesPerMs = this.#rate.bytesPerMsWith(unheardBytes, nowMs);
    for (const { stop } of tooLate(pushes, { leftMs: this.#deadlineMs - nowMs, bytesPerMs })) {
      stop.abort(new Error('no time was left to send it'));
    }
  }

  /** Nothing that is under way is of use any more. */
  giveUpAll(): void {
    for (const { stop } of this.#underWay.values()) stop.abort(new Error('no time was left to send it'));
  }

  #left({ role, sizeBytes, sentBytes }: UnderWay): Sending {
    return { role, bytes: Math.max(0, sizeBytes * this.#ratio - sentBytes) };
  }

  #window(deadlineMs: number): { leftMs: number; bytesPerMs: number | undefined } {
    const nowMs = this.#now();
    return { leftMs: deadlineMs - nowMs, bytesPerMs: this.#rate.bytesPerMs(nowMs) };
  }
}
