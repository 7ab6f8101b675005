// Content that needs no push: that of stored results, which the ledger knows, and of inputs that were there
// before the task started.
import type { RelPath } from '../../model/path.ts';
import type { Ledger } from '../../records/ledger.ts';

export interface Baseline {
  readonly md5: string;
  readonly size: number;
}

export class Baselines {
  readonly #ledger: Pick<Ledger, 'results'>;
  /** What is not as the ledger has it; undefined: none. */
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

  /** Whatever it holds, it is pushed. */
  delete(path: RelPath): void {
    this.#own.set(path, undefined);
  }

  /** From now on it is what the ledger says. */
  stored(path: RelPath): void {
    this.#own.delete(path);
  }

  /** Of inputs, for whoever takes over. */
  *inputs(isInput: (path: RelPath) => boolean): Generator<[RelPath, Baseline]> {
    for (const [path, own] of this.#own) if (own !== undefined) yield [path, own];
    for (const path of this.#ledger.results.keys()) {
      if (this.#own.has(path) || !isInput(path)) continue;
      const { md5, size } = this.#ledger.results.get(path) ?? {};
      if (md5 !== undefined && size !== undefined) yield [path, { md5, size }];
    }
  }
}
