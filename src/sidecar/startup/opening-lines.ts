// The first lines for the user: the identity of the run and what the task resumes from. If there is nothing to resume
// from, they say whether this index has checkpoints under another task name: if a task was renamed, or a command did
// not get its name, it would otherwise start from nothing without a message.
import fs from 'node:fs';
import type { Log } from '../../log/log.ts';
import { describeFiles, generationBytes } from '../../model/checkpoint/generation-words.ts';
import { generationName, type History } from '../../model/checkpoint/history.ts';
import { errnoOf, reasonOf } from '../../model/errors.ts';
import { firstLine } from '../../model/format/first-line.ts';
import { type KeyScope, parseRecordKey, recordPrefix, TASKS_PREFIX } from '../../model/format/keys.ts';
import { isTaskName } from '../../model/format/task-name.ts';
import type { Generation } from '../../model/format/records.ts';
import { encodePath, showPath } from '../../model/path.ts';
import { formatAge } from '../../model/units.ts';
import type { Store } from '../../store/contract/store.ts';
import { storeDirectory } from '../../store/url.ts';
import type { Needs } from '../run/context.ts';

/** Names that are looked up, with one request each. */
const MOST_NAMES = 5;

type OpeningContext = Needs<
  'settings' | 'scope' | 'manifest' | 'store' | 'log' | 'attempt' | 'history' | 'now'
>;

/** What the start has found and done. */
interface FoundAtStart {
  /** The store is a directory that this attempt has created. */
  readonly storeWasMissing: boolean;
  readonly restored: { readonly generation: Generation | undefined; readonly files: number };
}

/** The identity of the run, and what the task resumes from. The task may start now. */
export async function sayOpening(
  context: OpeningContext,
  { storeWasMissing, restored: { generation, files } }: FoundAtStart,
  signal: AbortSignal,
): Promise<void> {
  sayStart(context, storeWasMissing);
  await sayWhatIsNotPromised(context, signal);
  if (generation !== undefined) return sayResumed(generation, files, context);
  const { restore, manifest } = context.settings;
  const { checkpoints, companions } = manifest;
  // `--no-restore`, `capture watch`, or a task that declares nothing to resume from.
  if (!restore || (checkpoints.length === 0 && companions.length === 0)) return;
  await sayNothingRestored({ ...context, signal });
}

/**
 * A request that an earlier attempt has sent may arrive late, and only a server that checks the condition refuses it
 * then. An attempt alone rules out late writes of its own.
 */
async function sayWhatIsNotPromised(
  { settings, store, log, attempt }: OpeningContext,
  signal: AbortSignal,
): Promise<void> {
  // For directories the documentation says it.
  if (
    attempt === 1 ||
    settings.manifest.results.length === 0 ||
    storeDirectory(settings.to.url) !== undefined
  )
    return;
  try {
    if (await store.replacesAtomically(signal)) return;
  } catch (error) {
    signal.throwIfAborted();
    log.debug(`it is unknown whether ${store.url} honours If-Match: ${reasonOf(error)}`);
    return;
  }
  log.info(
    `${store.url} does not honour If-Match: an earlier attempt of this index that is stalled, and not dead, could still replace a result of this one`,
    { hint: 'keep versions of the bucket, or use a server that honours it' },
  );
}

/** The identity of the run. */
function sayStart({ settings, log, attempt }: OpeningContext, storeWasMissing: boolean): void {
  const { identity, to, workdir } = settings;
  const { taskName: task, runId: run } = identity;
  const note = storeWasMissing ? 'a new directory' : undefined;
  log.info(firstLine(settings, attempt, note), { event: 'start', task, run, to: to.url, workdir });
}

function sayResumed(generation: Generation, files: number, { log, now }: OpeningContext): void {
  const name = generationName(generation);
  const ageMs = Math.max(0, now() - Date.parse(generation.at));
  log.info(`resumed from checkpoint ${name} (${describeFiles(generation)}, ${formatAge(ageMs)} old)`, {
    event: 'resumed',
    generation: name,
    files,
    bytes: generationBytes(generation),
    ageMs,
  });
}

/**
 * True if the store is a directory of this machine that does not exist. The first put creates a directory store: so a
 * mistyped --to is a new, empty store.
 */
export async function isMissing(url: string): Promise<boolean> {
  const directory = storeDirectory(url);
  if (directory === undefined) return false;
  try {
    await fs.promises.stat(encodePath(directory));
    return false;
  } catch (error) {
    return errnoOf(error) === 'ENOENT'; // Otherwise the first request says why it cannot be read.
  }
}

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
    // With `--on-local newest`: if no set had been whole, the start would have failed with 69.
    log.info('the task goes on from the checkpoint that is here', { event: 'resumed' });
    return;
  }
  log.info('nothing to resume from', { event: 'fresh', hint: await nameHint(search) });
}

/** Under which other name there is something to resume from, if this name has stored nothing at all. */
export async function nameHint(search: NameSearch): Promise<string | undefined> {
  const names = search.history.attempts.length > 0 ? [] : await otherNames(search);
  if (names.length === 0) return undefined;
  return `--task-name ${names.map(showPath).join(' or ')}: this index has checkpoints under that name`;
}

/** Other tasks that have checkpoints of this index: the task may have had another name. */
async function otherNames({ store, scope, log, signal }: NameSearch): Promise<readonly string[]> {
  try {
    const folders = await store.folders(TASKS_PREFIX, signal);
    const others = folders.filter(isTaskName).filter((name) => name !== scope.taskName);
    const found = await Promise.all(
      others.slice(0, MOST_NAMES).map((taskName) => hasCheckpoint(store, { ...scope, taskName }, signal)),
    );
    return others.filter((_, at) => found[at]);
  } catch (error) {
    log.debug(`it is unknown whether the task had another name: ${reasonOf(error)}`);
    return [];
  }
}

async function hasCheckpoint(store: Store, scope: KeyScope, signal: AbortSignal): Promise<boolean> {
  for await (const { key } of store.list(recordPrefix(scope), signal)) {
    if (parseRecordKey(key)?.kind === 'checkpoint') return true;
  }
  return false;
}
