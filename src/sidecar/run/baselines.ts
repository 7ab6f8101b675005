// Content that needs no push: that of stored results, which the ledger knows, and that of inputs that were there
// before the task started.
import type { RelPath } from '../../model/path.ts';
import type { Ledger } from '../../records/ledger.ts';

export interface Baseline {
  readonly md5: string;
  readonly size: number;
}

export class Baselines {
  readonly #ledger: Pick<Ledger, 'results'>;
  /** Entries that differ from the ledger; undefined: this path has no baseline. */
  readonly #own = new Map<RelPath, Baseline | undefined>();

  constructor(ledger: Pick<Ledger, 'results'>) {
    this.#ledger = ledger;
  }

  get(path: RelPath): Baseline | undefined {
    return this.#own.has(path) ? this.#own.get(path) : this.#ledger.results.get(path);
  }

  /** The content of an input. */
  set(path: RelPath, baseline: Baseline): void {
    this.#own.set(path, baseline);
  }

  /** From now on the file is pushed, whatever it holds. */
  delete(path: RelPath): void {
    this.#own.set(path, undefined);
  }

  /** From now on the ledger's entry counts. */
  stored(path: RelPath): void {
    this.#own.delete(path);
  }

  /** The baselines of inputs, for whoever takes over. */
  *inputs(isInput: (path: RelPath) => boolean): Generator<[RelPath, Baseline]> {
    for (const [path, own] of this.#own) if (own !== undefined) yield [path, own];
    for (const path of this.#ledger.results.keys()) {
      if (this.#own.has(path) || !isInput(path)) continue;
      const { md5, size } = this.#ledger.results.get(path) ?? {};
      if (md5 !== undefined && size !== undefined) yield [path, { md5, size }];
    }
  }
}
