// What all sources say together, and what of it is news.
import { sameNotice, type Notice } from '../model/format/notice.ts';

/** A notice is told once, and withdrawn once, whoever of the sources says it. */
export class Told {
  readonly #onNotice: (notice: Notice) => void;
  readonly #onWithdrawn: (notice: Notice) => void;
  readonly #bySource = new Map<number, readonly Notice[]>();
  #standing: readonly Notice[] = [];

  constructor(onNotice: (notice: Notice) => void, onWithdrawn: (notice: Notice) => void) {
    this.#onNotice = onNotice;
    this.#onWithdrawn = onWithdrawn;
  }

  /** All that stands now by one source. News first: where an instant moves, some notice stands at any moment. */
  now(source: number, notices: readonly Notice[]): void {
    this.#bySource.set(source, notices);
    const before = this.#standing;
    const all = [...this.#bySource.values()].flat();
    this.#standing = all.filter((notice, at) => all.findIndex(same(notice)) === at);
    for (const notice of this.#standing) if (!before.some(same(notice))) this.#onNotice(notice);
    for (const notice of before) if (!this.#standing.some(same(notice))) this.#onWithdrawn(notice);
  }
}

function same(notice: Notice): (other: Notice) => boolean {
  return (other) => sameNotice(notice, other);
}
