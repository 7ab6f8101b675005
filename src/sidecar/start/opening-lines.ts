// The first lines for the user: who this is and what the task goes on from. When there is nothing to go on from, they
// say whether the task had another name when it made its checkpoints.
import { reasonOf } from '../../core/errors.ts';
import { describeFiles, generationBytes } from '../../core/generation-words.ts';
import { firstLine } from '../../core/first-line.ts';
import { generationName } from '../../core/history.ts';
import { parseRecordKey, recordPrefix, TASKS_PREFIX, unescapeKey, type KeyScope } from '../../core/keys.ts';
import { showPath } from '../../core/path.ts';
import type { Generation } from '../../core/records.ts';
import { formatAge } from '../../core/units.ts';
import type { Store } from '../../store/store.ts';
import type { Context } from '../context.ts';
import type { Restored } from './restore.ts';

/** Names that are looked at: one request each. */
const MOST_NAMES = 5;

/** Who this is, and what the task goes on from. The task may start now. */
export async function sayOpening(context: Context, { generation, files }: Restored): Promise<void> {
  const { settings, history, log } = context;
  sayStart(context);
  if (generation !== undefined) return sayResumed(generation, files, context);
  const { checkpoints, companions } = settings.manifest;
  // `--no-restore`, `capture watch`, and a task that declares nothing to resume from.
  if (!settings.restore || (checkpoints.length === 0 && companions.length === 0)) return;
  if (history.generations.length > 0) {
    // `--on-local newest`: had none of them been whole, nothing would have been started.
    log.info('the task goes on from the checkpoint that is here', { event: 'resumed' });
    return;
  }
  const names = history.attempts.length > 0 ? [] : await otherNames(context);
  const hint =
    names.length === 0
      ? undefined
      : `--task-name ${names.map(showPath).join(' or ')}: this index has checkpoints under that name`;
  log.info('nothing to resume from', { event: 'fresh', hint });
}

/** Who this is. */
function sayStart({ settings, log, attempt }: Context): void {
  const { identity, to, workdir } = settings;
  const { taskName: task, runId: run } = identity;
  log.info(firstLine(settings, attempt), { event: 'start', task, run, to: to.url, workdir });
}

function sayResumed(generation: Generation, files: number, { log, now }: Context): void {
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

/** Other tasks that have checkpoints of this index: perhaps this one had another name. */
async function otherNames({ store, scope, log, signal }: Context): Promise<readonly string[]> {
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
