// When there is nothing to go on from: has this index checkpoints under another task name? A task that was renamed, or
// a command that was not told the name, would otherwise start from nothing without a word.
import type { Log } from '../../log/log.ts';
import type { History } from '../../model/checkpoint/history.ts';
import { reasonOf } from '../../model/errors.ts';
import {
  parseRecordKey,
  recordPrefix,
  TASKS_PREFIX,
  unescapeKey,
  type KeyScope,
} from '../../model/format/keys.ts';
import { showPath } from '../../model/path.ts';
import type { Store } from '../../store/contract/store.ts';

/** Names that are looked at: one request each. */
const MOST_NAMES = 5;

export interface NameSearch {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly history: History;
  readonly log: Pick<Log, 'debug'>;
  readonly signal: AbortSignal;
}

/** Where no set was restored: says that there is none, and under which name there is one. */
export async function sayNothingRestored(
  search: NameSearch & { readonly log: Pick<Log, 'info'> },
): Promise<void> {
  const { history, log } = search;
  if (history.generations.length > 0) {
    // `--on-local newest`: had none of them been whole, it would have ended with 69.
    log.info('the task goes on from the checkpoint that is here', { event: 'resumed' });
    return;
  }
  log.info('nothing to resume from', { event: 'fresh', hint: await nameHint(search) });
}

/** Under which name there is something to go on from, where this one has stored nothing at all. */
export async function nameHint(search: NameSearch): Promise<string | undefined> {
  const names = search.history.attempts.length > 0 ? [] : await otherNames(search);
  if (names.length === 0) return undefined;
  return `--task-name ${names.map(showPath).join(' or ')}: this index has checkpoints under that name`;
}

/** Other tasks that have checkpoints of this index: perhaps this one had another name. */
async function otherNames({ store, scope, log, signal }: NameSearch): Promise<readonly string[]> {
  try {
    const folders = await store.folders(TASKS_PREFIX, signal);
    const others = folders.map(unescapeKey).filter((name) => name !== scope.taskName);
    const found = await Promise.all(
      others.slice(0, MOST_NAMES).map((taskName) => hasCheckpoint(store, { ...scope, taskName }, signal)),
    );
    return others.filter((_, at) => found[at]);
  } catch (error) {
    log.debug(`nobody knows whether the task had another name: ${reasonOf(error)}`);
    return [];
  }
}

async function hasCheckpoint(store: Store, scope: KeyScope, signal: AbortSignal): Promise<boolean> {
  for await (const { key } of store.list(recordPrefix(scope), signal)) {
    if (parseRecordKey(key)?.kind === 'checkpoint') return true;
  }
  return false;
}
