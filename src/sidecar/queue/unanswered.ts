// Puts under results' own names whose answers are not here: on their way, or lost. Any of them may stand under its name
// by now or later, so its push id is known from here before its first byte is sent, and it is no baseline.
import { type Fingerprint, sameFingerprint } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';

/** A store that leaves more puts of one path unanswered: then it is only known that there are more. */
const MOST_EACH = 8;

interface Put {
  push: string;
  /** The state that is sent; undefined: it is still being read. */
  state: Fingerprint | undefined;
  /** A set names this state as newer than all that is sent under `push`. */
  newer: Fingerprint | undefined;
  /** Closes of the file that it covers. */
  readonly closes: number;
}

/** One push of a path: each try has its own id. */
export interface Pushing {
  /** The id to send this state with. */
  readonly idFor: (state: Fingerprint) => string;
  /** Its answers are here: what is not stored never will be. */
  readonly answered: () => void;
}

export interface OlderPushes {
  readonly pushes: readonly string[];
  /** There are more that nobody has counted. */
  readonly isMore: boolean;
}

export class Unanswered {
  readonly #newId: () => string;
  readonly #puts = new Map<RelPath, readonly Put[]>();
  /** Paths with more than {@link MOST_EACH}. */
  readonly #more = new Set<RelPath>();

  constructor(newId: () => string) {
    this.#newId = newId;
  }

  /** Pushes of one path are made one by one. */
  begin(path: RelPath, closes: number): Pushing {
    const newPut = (): Put => ({ push: this.#newId(), state: undefined, newer: undefined, closes });
    let put = newPut();
    const own = new Set([put]);
    // An earlier one without a state was given up before anything was sent.
    this.#set(path, [...this.#of(path).filter(({ state }) => state !== undefined), put]);
    return {
      idFor: (state) => {
        if (put.state !== undefined) {
          put = newPut();
          own.add(put);
          this.#set(path, [...this.#of(path), put]);
        }
        if (put.newer !== undefined && sameFingerprint(put.newer, state)) put.push = this.#newId();
        put.state = state;
        return put.push;
      },
      answered: () =>
        this.#set(
          path,
          this.#of(path).filter((one) => !own.has(one)),
        ),
    };
  }

  /** The result has its name by a put over what stood there: no earlier one can come any more. */
  named(path: RelPath): void {
    this.#puts.delete(path);
    this.#more.delete(path);
  }

  has(path: RelPath): boolean {
    return this.#more.has(path) || this.#of(path).some(({ state }) => state !== undefined);
  }

  /** Closes of the file that the newest one covers. */
  closes(path: RelPath): number {
    return Math.max(0, ...this.#of(path).map(({ state, closes }) => (state === undefined ? 0 : closes)));
  }

  /** The pushes of other states than this, which is the newest. This state is never sent with one of them. */
  olderThan(path: RelPath, state: Fingerprint): OlderPushes {
    const others = this.#of(path).filter(
      (put) => put.state === undefined || !sameFingerprint(put.state, state),
    );
    for (const put of others) if (put.state === undefined) put.newer = state;
    return { pushes: others.map(({ push }) => push), isMore: this.#more.has(path) };
  }

  #of(path: RelPath): readonly Put[] {
    return this.#puts.get(path) ?? [];
  }

  #set(path: RelPath, puts: readonly Put[]): void {
    if (puts.length > MOST_EACH) this.#more.add(path);
    if (puts.length > 0) this.#puts.set(path, puts.slice(-MOST_EACH));
    else this.#puts.delete(path);
  }
}
