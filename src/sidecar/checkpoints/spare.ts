// Which sets are proven, which only the future can prove, and how long older ones are kept until then.
import { isProofOfLife } from '../../model/checkpoint/restore-order.ts';
import { keptGenerations } from '../../model/checkpoint/retention.ts';
import { provenFromMs } from '../../model/file/suspect.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { type LongTimer, startTimer } from '../../native/clock.ts';
import { contentClose } from '../run/content-close.ts';
import type { IsProven, Members } from './generation-record.ts';
import type { CutParts } from './pending-cut.ts';

/**
 * Which generations are proven, and when the next one will be. Until one is proven, more are kept than `--generations`
 * says: a death may be noticed seconds after the commit of the set that it left half-written.
 */
export class Spare {
  readonly #parts: Pick<CutParts, 'context' | 'files' | 'checkpoints'>;
  readonly #onProven: () => void;
  #signalledAtMs: number | undefined;
  #clean = false;
  #timer: LongTimer | undefined;

  /** Calls `onProven` when a generation is proven, if an older one can be dropped or a mark removed because of it. */
  constructor(parts: Pick<CutParts, 'context' | 'files' | 'checkpoints'>, onProven: () => void) {
    this.#parts = parts;
    this.#onProven = onProven;
  }

  /**
   * False while the kernel may have closed one of these files for a dying process. `newestFirst`: all sets, if it is
   * one of them.
   */
  readonly isProven: IsProven = (generation, newestFirst) =>
    (this.#clean || this.#parts.context.taskNews.reaches(this.#provenFromMs(generation))) &&
    this.isSettled(generation, newestFirst);

  /**
   * False if neither time nor the end of the task can prove the set: the task has removed a file of it whose close is
   * not clean, perhaps because it is half-written, and no set without that file has followed.
   */
  readonly isSettled: IsProven = (generation, newestFirst) => {
    const proven = new Set(newestFirst.filter(isProofOfLife).flatMap(({ members }) => members.map(keyOf)));
    const newer = newestFirst.slice(
      0,
      Math.max(
        0,
        newestFirst.findIndex((one) => one === generation),
      ),
    );
    const next = newer.find(({ suspect, incomplete }) => suspect !== true && incomplete !== true);
    const held = new Set((next ?? generation).members.map(contentOf));
    return generation.members.every(
      (member) => proven.has(member.key) || !held.has(contentOf(member)) || this.#stands(member),
    );
  };

  /** A generation was committed. Sets the timer for the next one that becomes proven, if that changes anything. */
  committed(): void {
    this.#timer?.cancel();
    const { ledger, settings, now } = this.#parts.context;
    const { generations } = ledger;
    const isSpare =
      keptGenerations(generations, settings.generations, () => true).length < generations.length;
    if (!isSpare && !generations.some(({ unproven }) => unproven)) return;
    const nowMs = now();
    const times = generations.map((one) => this.#provenFromMs(one)).filter((atMs) => atMs > nowMs);
    const nextMs = Math.min(...times);
    if (nextMs < Infinity) this.#timer = startTimer(nextMs - nowMs, this.#onProven);
  }

  /** The task was asked to end: from now on only its end proves its closes. */
  signalled(atMs: number): void {
    this.#signalledAtMs ??= atMs;
  }

  /** The task ended well, and none of its writers died: everything is proven. */
  endedWell(): void {
    this.#clean = true;
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** True if there is a file at its path, or if it is known that no dying process has closed this one. */
  #stands(member: StoredFile): boolean {
    return this.#provenFileFromMs(member, undefined) === 0 || this.#parts.checkpoints.isThere(member.path);
  }

  /** When the generation is proven, ms since the epoch: 0 for at once, Infinity for not before the end of the task. */
  #provenFromMs({ members }: Members): number {
    return Math.max(0, ...members.map((member) => this.#provenFileFromMs(member, this.#signalledAtMs)));
  }

  #provenFileFromMs({ path, md5, mtimeNs }: StoredFile, signalledAtMs: number | undefined): number {
    const { files, checkpoints, context } = this.#parts;
    const newest = checkpoints.newestOf(path);
    // The task has closed the file again since, so this object's close was not made for a dying process. Equal bytes
    // under another key prove nothing: a sidecar that replaces another sends them again.
    if (newest !== undefined && newest.md5 !== md5) return 0;
    const { lastClose } = files.get(path, 'checkpoint') ?? {};
    return provenFromMs(contentClose(context, lastClose, { mtimeNs }), signalledAtMs);
  }
}

function keyOf({ key }: StoredFile): string {
  return key;
}

function contentOf({ path, md5 }: StoredFile): string {
  return `${md5} ${path}`;
}
