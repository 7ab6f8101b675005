// The object first, its name later: content whose close may come from a dying process is stored at once, as a staged
// object (`.partial-<attempt>`). A copy inside the store gives it the result's own name as soon as nothing can make
// that close suspect any more, and never over a good object before that. If the attempt is killed meanwhile, the object
// stays where it is: the next attempt judges by records.
import pLimit from 'p-limit';
import { reasonOf } from '../../model/errors.ts';
import type { Close, Fingerprint } from '../../model/file/file-state.ts';
import { provenFromMs } from '../../model/file/suspect.ts';
import type { StoredFile } from '../../model/format/records.ts';
import type { Paths } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';
import { type BackOff, Changes, pauseAfter } from '../../model/waiting.ts';
import type { TaskNews } from '../run/task-news.ts';
import { Alarm } from './turns.ts';

/** A copy costs the store little, and us a round trip. */
const PROMOTED_AT_ONCE = 16;
const AFTER_FAILED: BackOff = { firstMs: 1000, mostMs: 60_000 };

export interface StagedObject {
  readonly file: StoredFile;
  /** The tag of the object. */
  readonly tag: string;
  /** The newest close that can have made the content. */
  readonly close: Close | undefined;
  readonly fingerprint: Fingerprint;
  /** Closes of the file since the task started, counted when it was read. */
  readonly closes: number;
  /** When we began to read it. */
  readonly readMs: number;
}

/** True if the end of the task makes content of this close suspect. */
type Judge = (path: RelPath, close: Close | undefined) => boolean;

export interface StagedOptions {
  readonly paths: Paths;
  readonly now: () => number;
  readonly taskNews: Pick<TaskNews, 'reaches'>;
  /** Gives the object the result's own name, unless newer content has it by then. May reject. */
  readonly promote: (path: RelPath, one: StagedObject) => Promise<void>;
  readonly onFailed: (path: RelPath, error: unknown) => void;
}

export class Staged {
  readonly #options: StagedOptions;
  /** By path, oldest first. */
  readonly #objects = new Map<RelPath, readonly StagedObject[]>();
  readonly #alarm: Alarm;
  readonly #limit = pLimit(PROMOTED_AT_ONCE);
  readonly #failures = new Map<RelPath, { readonly times: number; readonly why: string }>();
  /** Paths with a staged object that is settled and does not have its name yet. */
  readonly #due = new Set<RelPath>();
  readonly #changes = new Changes();
  #signalledAtMs: number | undefined;
  #isSuspect: Judge | undefined;
  #isClosed = false;
  #promoting = 0;

  constructor(options: StagedOptions) {
    this.#options = options;
    const { paths, now } = options;
    this.#alarm = new Alarm(now, (due) => {
      for (const id of due) this.#settle(paths.pathOf(id));
    });
  }

  /** True if content of this close may have the result's own name. */
  mayBeNamed(path: RelPath, close: Close | undefined): boolean {
    return this.#isSettled(path, close);
  }

  /** False once the object has its name, or newer content has it. */
  has(path: RelPath, { file }: StagedObject): boolean {
    return this.#objects.get(path)?.some((one) => one.file.push === file.push) === true;
  }

  newest(path: RelPath): StagedObject | undefined {
    return this.#objects.get(path)?.at(-1);
  }

  /** Those of the path, oldest first. */
  of(path: RelPath): readonly StagedObject[] {
    return this.#objects.get(path) ?? [];
  }

  /** The newest of each path. */
  *objects(): Generator<readonly [RelPath, StagedObject]> {
    for (const [path, objects] of this.#objects) {
      const newest = objects.at(-1);
      if (newest !== undefined) yield [path, newest];
    }
  }

  note(path: RelPath, one: StagedObject): void {
    this.#objects.set(path, [...(this.#objects.get(path) ?? []), one]);
    this.#settle(path);
  }

  /** The result has its own name, with content as new as `until`, or newer than everything staged. */
  named(path: RelPath, until?: StagedObject): void {
    const all = this.#objects.get(path) ?? [];
    const at = all.findIndex(({ file }) => file.push === until?.file.push);
    const rest = until === undefined ? [] : all.slice(at + 1);
    if (rest.length === 0) this.#objects.delete(path);
    else this.#objects.set(path, rest);
    this.#failures.delete(path);
    if (this.#settledOf(path) === undefined) this.#due.delete(path);
    this.#changes.notify();
  }

  /** The task says that the content it has closed at this path is whole. */
  vouched(path: RelPath): void {
    const all = this.#objects.get(path);
    if (all === undefined) return;
    const clean = (close: Close | undefined): Close | undefined => close && { ...close, evidence: 'clean' };
    this.#objects.set(
      path,
      all.map((one) => ({ ...one, close: clean(one.close) })),
    );
    this.#settle(path);
  }

  /** The task was asked to end: from here on a close proves nothing before the end, unless it is clean. */
  signalled(atMs: number): void {
    this.#signalledAtMs ??= atMs;
  }

  /** The task has ended, and `isSuspect` says which closes that makes suspect: everything else gets its name. */
  ended(isSuspect: Judge): void {
    this.#isSuspect = isSuspect;
    for (const path of this.#objects.keys()) this.#settle(path);
  }

  /** Staged objects that are settled and do not have their names yet. */
  due(): readonly StagedObject[] {
    return [...this.#due].flatMap((path) => this.#settledOf(path) ?? []);
  }

  /** Why the last try to give it its name failed. */
  whyUnnamed(path: RelPath): string | undefined {
    return this.#failures.get(path)?.why;
  }

  /** Resolves when everything that is settled has its name, or when `signal` aborts. */
  async settled(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#due.size > 0) await this.#changes.next(signal);
  }

  /** Begins no further promotion. */
  close(): void {
    this.#isClosed = true;
    this.#alarm.close();
  }

  /** After {@link close}: resolves when no promotion is under way, or when `signal` aborts. */
  async idle(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#promoting > 0) await this.#changes.next(signal);
  }

  /** The settled objects of the path may have their name now. */
  retry(path: RelPath): void {
    if (this.#objects.has(path)) this.#settle(path);
  }

  /** The newest settled object of the path. */
  #settledOf(path: RelPath): StagedObject | undefined {
    return this.#objects.get(path)?.findLast(({ close }) => this.#isSettled(path, close));
  }

  #isSettled(path: RelPath, close: Close | undefined): boolean {
    return this.#options.taskNews.reaches(this.#settledAtMs(path, close));
  }

  #settledAtMs(path: RelPath, close: Close | undefined): number {
    if (this.#isSuspect !== undefined) return this.#isSuspect(path, close) ? Infinity : 0;
    return provenFromMs(close, this.#signalledAtMs);
  }

  #settle(path: RelPath): void {
    const one = this.#settledOf(path);
    if (one === undefined) return this.#wait(path);
    this.#due.add(path);
    void this.#limit(async () => {
      if (this.#isClosed) return;
      this.#promoting += 1;
      try {
        await this.#options.promote(path, one);
        this.#wait(path);
      } catch (error) {
        this.#failed(path, error);
      } finally {
        this.#promoting -= 1;
        this.#changes.notify();
      }
    });
  }

  #wait(path: RelPath): void {
    const at = Math.min(
      ...(this.#objects.get(path) ?? []).map(({ close }) => this.#settledAtMs(path, close)),
    );
    // An object that is due and not settled waits for the news that the task has ended.
    const isAhead = at !== Infinity && at > this.#options.now();
    if (isAhead && !this.#isClosed) this.#alarm.wait(this.#options.paths.idOf(path), at);
  }

  #failed(path: RelPath, error: unknown): void {
    const { paths, now, onFailed } = this.#options;
    const failures = this.#failures.get(path)?.times ?? 0;
    this.#failures.set(path, { times: failures + 1, why: reasonOf(error) });
    if (this.#isClosed) return;
    if (failures === 0) onFailed(path, error);
    this.#alarm.wait(paths.idOf(path), now() + pauseAfter(AFTER_FAILED, failures));
  }
}
