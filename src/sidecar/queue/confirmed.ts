// Which results of earlier attempts were found in the store as their records say. A task that writes the same content
// again saves the push of it only if that is so: an object may have been deleted, or cut, since.
import type { StoredFile } from '../../model/format/records.ts';
import { markRow } from '../../model/packed/codecs.ts';
import { PackedMap } from '../../model/packed/packed-map.ts';
import { showPath, type RelPath } from '../../model/path.ts';
import type { Context } from '../run/context.ts';
import { isOverwritten } from './overwritten.ts';

export class Confirmed {
  readonly #context: Context;
  readonly #paths: PackedMap<true>;

  constructor(context: Context) {
    this.#context = context;
    this.#paths = new PackedMap(markRow, context.paths);
  }

  has(path: RelPath): boolean {
    return this.#paths.has(path);
  }

  /**
   * Looks, once, for the object of a result whose content came again; `known` is what was stored. False when it is not
   * there as it was: then that content is no reason not to push any more.
   */
  async isStored(known: StoredFile | undefined, md5: string): Promise<boolean> {
    const { attempt, baselines, log } = this.#context;
    if (known === undefined || known.attempt === attempt || known.md5 !== md5) return true;
    const { path } = known;
    if (this.has(path)) return true;
    if (!(await isOverwritten(this.#context, known))) {
      this.#paths.set(path, true);
      return true;
    }
    log.warn(
      `${showPath(path)} that attempt ${known.attempt} stored is gone from the store, or was changed in it: it is pushed again`,
    );
    baselines.delete(path);
    return false;
  }
}
