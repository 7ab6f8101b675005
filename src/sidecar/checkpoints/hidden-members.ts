// Checkpoints behind links to directories: capture does not follow these, so a set lacks them and is not whole.
import { lostBehindLinks } from '../../model/file/behind-link.ts';
import { LINKED_HINT } from '../../model/file/link-target.ts';
import { showPath } from '../../model/path.ts';
import type { LinkedDirectories } from '../../watch/linked-directories.ts';
import type { Needs } from '../run/context.ts';
import { LACKS_SOME, type Marks } from './generation-record.ts';
import type { Until } from './verify.ts';

export class HiddenMembers {
  readonly #context: Needs<'manifest' | 'log' | 'startedAt'>;
  readonly #links: Pick<LinkedDirectories, 'lost'>;
  #hasWarned = false;

  constructor(context: Needs<'manifest' | 'log' | 'startedAt'>, links: Pick<LinkedDirectories, 'lost'>) {
    this.#context = context;
    this.#links = links;
  }

  /** Resolves to the marks of a set that is committed now. Throws if `until` aborts, unless the set is the last one. */
  async marks({ signal, isLast }: Until): Promise<Marks> {
    const { manifest, log, startedAt } = this.#context;
    try {
      const isLost = lostBehindLinks(manifest, ['checkpoint']);
      const [first] = await this.#links.lost(isLost, Date.parse(startedAt), signal);
      if (first === undefined) return {};
      const what = `checkpoint sets lack ${showPath(first.path)} (${first.why}), and are marked incomplete`;
      if (!this.#hasWarned) log.warn(what, { hint: LINKED_HINT });
      this.#hasWarned = true;
    } catch (error) {
      if (!isLast || !signal.aborted) throw error;
    }
    return LACKS_SOME;
  }
}
