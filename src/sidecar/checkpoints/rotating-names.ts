// Does the number in some file names count checkpoints, or the parts of one (`shard.0`, `shard.1`)? It counts
// checkpoints if the user says so (`--newest`), or once the program has removed the first file of the kin.
import type { Rotates } from '../../model/checkpoint/rotation.ts';
import type { RelPath } from '../../model/path.ts';
import type { Needs } from '../run/context.ts';
import { presenceOf } from '../run/presence.ts';

export class RotatingNames {
  readonly #context: Needs<'settings' | 'root' | 'mounts'>;
  readonly #rotationOf: Rotates;
  /** By kin, the first file that existed. */
  readonly #firsts = new Map<string, RelPath>();

  constructor(context: Needs<'settings' | 'root' | 'mounts'>, rotationOf: Rotates) {
    this.#context = context;
    this.#rotationOf = rotationOf;
  }

  /** True if there are such files, and it is unknown what their number counts. */
  get areAmbiguous(): boolean {
    return this.#firsts.size > 0;
  }

  /** Call it for each file, in the order in which they are written. */
  countCheckpoints(path: RelPath): boolean {
    const kin = this.#rotationOf(path)?.kin ?? path;
    if (kin === path) return false;
    if (this.#context.settings.manifest.newest !== undefined) return true;
    const first = this.#firsts.get(kin) ?? path;
    this.#firsts.set(kin, first);
    return first !== path && presenceOf(this.#context, first) === 'gone';
  }
}
