// Does the number in the names of some files count checkpoints, or the parts of one (`shard.0`, `shard.1`)? It counts
// checkpoints if the user says so (`--newest`), or once the program has removed the first file of its kin.
import type { Rotates } from '../../model/checkpoint/rotation.ts';
import type { RelPath } from '../../model/path.ts';
import { factsBeneath } from '../../native/files.ts';
import type { Needs } from '../run/context.ts';

export class RotatingNames {
  readonly #context: Needs<'settings' | 'root'>;
  readonly #rotationOf: Rotates;
  /** By kin: the first file that there was. */
  readonly #firsts = new Map<string, RelPath>();

  constructor(context: Needs<'settings' | 'root'>, rotationOf: Rotates) {
    this.#context = context;
    this.#rotationOf = rotationOf;
  }

  /** True if there are such files, and nobody knows what their number counts. */
  get areUntold(): boolean {
    return this.#firsts.size > 0;
  }

  /** To be asked for each file, in the order in which they are written. */
  countCheckpoints(path: RelPath): boolean {
    const kin = this.#rotationOf(path)?.kin ?? path;
    if (kin === path) return false;
    if (this.#context.settings.manifest.newest !== undefined) return true;
    const first = this.#firsts.get(kin) ?? path;
    this.#firsts.set(kin, first);
    return first !== path && factsBeneath(this.#context.root, first) === undefined;
  }
}
