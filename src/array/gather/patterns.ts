// Selects results by --include and --exclude, matched against their paths in the task's work directory. It also finds
// patterns that matched nothing: a mistyped pattern must not look like an array without results. No I/O.
import { compileManifest, type Manifest } from '../../model/file/manifest.ts';

export class Patterns {
  readonly #included: readonly Manifest[];
  readonly #texts: readonly string[];
  readonly #excluded: Manifest;
  readonly #unmatched: Set<number>;

  constructor(include: readonly string[], exclude: readonly string[]) {
    this.#texts = include;
    this.#included = include.map((pattern) => matcherOf([pattern]));
    this.#excluded = matcherOf(exclude);
    this.#unmatched = new Set(include.keys());
  }

  /**
   * Without --include, everything that is not excluded matches. That includes names that no pattern can match, because
   * they are refused later with a message.
   */
  has(path: string): boolean {
    if (this.#excluded.wants(path)) return false;
    if (this.#included.length === 0) return true;
    let isWanted = false;
    for (const [at, pattern] of this.#included.entries()) {
      if (isWanted && !this.#unmatched.has(at)) continue;
      if (!pattern.wants(path)) continue;
      isWanted = true;
      this.#unmatched.delete(at);
    }
    return isWanted;
  }

  /** The patterns of --include that have matched no path so far. */
  get unmatched(): readonly string[] {
    return [...this.#unmatched].map((at) => this.#texts[at] ?? '');
  }
}

function matcherOf(results: readonly string[]): Manifest {
  return compileManifest({
    results,
    checkpoints: [],
    inputs: [],
    companions: [],
    exclude: [],
    newest: undefined,
  });
}
