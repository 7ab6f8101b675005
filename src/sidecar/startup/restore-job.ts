// What every stage needs that fetches files before the task starts, and the order in which checkpoints are tried.
import type { Log } from '../../log/log.ts';
import { doubtLine } from '../../model/checkpoint/generation-words.ts';
import { generationName, type History } from '../../model/checkpoint/history.ts';
import { afterFailures, restoreOrder } from '../../model/checkpoint/restore-order.ts';
import type { Manifest } from '../../model/file/manifest.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import type { Generation } from '../../model/format/records.ts';
import type { Settings } from '../../model/format/settings.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import type { WorkDir } from '../../native/beneath.ts';
import type { Store } from '../../store/contract/store.ts';
import type { Caller } from '../run/context.ts';
import type { Progress } from '../run/progress.ts';

export interface RestoreJob {
  readonly settings: Settings;
  readonly scope: KeyScope;
  readonly manifest: Manifest;
  readonly root: WorkDir;
  readonly store: Store;
  /** Inputs are looked for here first. */
  readonly from: Store;
  readonly history: History;
  readonly log: Log;
  readonly caller: Caller;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/** Takes the messages about the choice: a log, or the lines of `--dry-run`. */
export type Teller = Pick<Log, 'warn'>;

/** Warns if the restored set is not known to be whole. */
export function tellDoubt(generation: Generation, isVerified: boolean, log: Teller): void {
  const doubt = isVerified ? undefined : doubtLine(generation);
  if (doubt === undefined) return;
  log.warn(doubt, {
    hint: '--no-restore starts from nothing; --verify-checkpoint has a check of your own decide',
  });
}

/**
 * The files of the generation that are placed: those that this run declares. Whoever can write below the prefix can put
 * other files into a record, such as the task's own program.
 */
export function declaredOf(generation: Generation, manifest: Manifest, log: Teller): Generation {
  const isDeclared = ({ path }: { readonly path: RelPath }): boolean => {
    const { checkpoint, companion, result } = manifest.rolesOf(path);
    return checkpoint || companion || result;
  };
  const others = [...generation.members, ...generation.companions].filter((one) => !isDeclared(one));
  if (others.length > 0) {
    const names = others
      .slice(0, MOST_NAMES)
      .map(({ path }) => showPath(path))
      .join(', ');
    const more = others.length > MOST_NAMES ? `, and ${others.length - MOST_NAMES} more` : '';
    log.warn(
      `checkpoint ${generationName(generation)} also holds what this run does not declare, and that is not restored: ${names}${more}`,
      { hint: 'if it is yours, declare it: --checkpoints, --companions' },
    );
  }
  const { members, companions } = generation;
  return { ...generation, members: members.filter(isDeclared), companions: companions.filter(isDeclared) };
}

/** More than anybody reads. */
const MOST_NAMES = 10;

/** `isVerified`: each generation is checked before it is trusted. */
export function orderOf(history: History, isVerified: boolean, log: Teller): readonly Generation[] {
  const order = restoreOrder(history.generations, isVerified);
  const tried = afterFailures(order, history.attempts);
  const [best, first] = [order[0], tried[0]];
  if (best !== undefined && first !== undefined && best !== first) {
    log.warn(
      `attempts failed again and again from checkpoint ${generationName(best)}, without a newer one: ` +
        `${generationName(first)} is tried`,
      { hint: 'a check of your own finds a bad checkpoint before the task does: --verify-checkpoint' },
    );
  }
  const [newest] = history.generations;
  if (newest?.unproven === true && best !== undefined && !isVerified) {
    const doubt = `a dying process may have closed a file of checkpoint ${generationName(newest)}, and its attempt never recorded that none did`;
    log.warn(
      best === newest
        ? `${doubt}: it is taken, as there is no other`
        : `${doubt}: ${generationName(best)} is taken`,
      { hint: 'a check of your own says which of them is whole: --verify-checkpoint' },
    );
  }
  return tried;
}
