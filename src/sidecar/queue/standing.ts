// Which of the checkpoint files that ever came may still be in the work directory. A task may write 100,000 names,
// each a new one, and remove the older ones: a cut looks only at what is there.
import type { Paths } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';

/**
 * This many of the names that are gone are still looked at, those that went last: a program may remove a file before
 * it writes it anew, and no cut may be taken without it then.
 */
const MOST_GONE = 200;

export class Standing {
  readonly #paths: Paths;
  readonly #there = new Set<number>();
  /** The one that went last stands last. */
  readonly #gone = new Set<number>();

  constructor(paths: Paths) {
    this.#paths = paths;
  }

  /** It was closed, or was there before the task. */
  came(path: RelPath): void {
    const id = this.#paths.idOf(path);
    this.#gone.delete(id);
    this.#there.add(id);
  }

  /** In the order in which they first came. */
  paths(): readonly RelPath[] {
    return [...this.#there, ...this.#gone].toSorted((a, b) => a - b).map((id) => this.#paths.pathOf(id));
  }

  /** Somebody has looked for it, and found it or not. */
  looked(path: RelPath, isThere: boolean): void {
    if (isThere) return this.came(path);
    const id = this.#paths.idOf(path);
    if (!this.#there.delete(id)) return;
    this.#gone.add(id);
    const [oldest] = this.#gone;
    if (this.#gone.size > MOST_GONE && oldest !== undefined) this.#gone.delete(oldest);
  }
}
