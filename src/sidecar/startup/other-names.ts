// If there is nothing to resume from: does this index have checkpoints under another task name? If a task was
// renamed, or a command was not told its name, it would otherwise start from nothing without a word.
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

/** Names that are looked at, with one request each. */
const MOST_NAMES = 5;

export interface NameSearch {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly history: History;
  readonly log: Pick<Log, 'debug'>;
  readonly signal: AbortSignal;
}

/** If no set was restored: says that there is none, and under which name there is one. */
export async function sayNothingRestored(
  search: NameSearch & { readonly log: Pick<Log, 'info'> },
): Promise<void> {
  const { history, log } = search;
  if (history.generations.length > 0) {
    // With `--on-local newest`: if none of them had been whole, the start would have failed with 69.
    log.info('the task goes on from the checkpoint that is here', { event: 'resumed' });
    return;
  }
  log.info('nothing to resume from', { event: 'fresh', hint: await nameHint(search) });
}

/** Under which other name there is something to resume from, if this one has stored nothing at all. */
export async function nameHint(search: NameSearch): Promise<string | undefined> {
  const names = search.history.attempts.length > 0 ? [] : await otherNames(search);
  if (names.length === 0) return undefined;
  return `--task-name ${names.map(showPath).join(' or ')}: this index has checkpoints under that name`;
}

/** Other tasks that have checkpoints of this index: perhaps it had another name. */
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
