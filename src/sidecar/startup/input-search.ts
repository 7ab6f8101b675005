// Searches stores for the inputs of a run, and reports inputs that are missing or not used. Objects of the run itself
// are no inputs. Fetches nothing: restore.ts does, and --dry-run only needs to know.
import pLimit from 'p-limit';
import type { Log } from '../../log/log.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import type { Manifest } from '../../model/file/manifest.ts';
import { type KeyScope, parseRecordKey, TASKS_PREFIX } from '../../model/format/keys.ts';
import type { Settings } from '../../model/format/settings.ts';
import { describeRun } from '../../model/outcome/other-runs.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { roomInHeap, tooManyForHeap } from '../../native/heap.ts';
import { readNewest } from '../../records/read.ts';
import {
  findInputs,
  type FoundInputs,
  type InputSearch,
  type OtherRunsResult,
} from '../../restore/inputs.ts';
import type { Store } from '../../store/contract/store.ts';
import { isMissing } from './opening-lines.ts';

/** The limit of names in a message; for further ones it gives the number. */
const NAMED = 5;

export interface InputJob {
  readonly settings: Settings;
  readonly scope: KeyScope;
  readonly manifest: Manifest;
  readonly store: Store;
  readonly from: Store;
  readonly signal: AbortSignal;
}

/** `store` is that of `--from` or of `--to`. */
export function searchOf(job: InputJob, store: Store, known: ReadonlySet<RelPath>): InputSearch {
  const { settings, scope, manifest, signal } = job;
  // The user has named another store: anything that any run has left there is an input.
  const run = store.url === job.store.url ? { id: settings.identity.runId } : undefined;
  const recorded = (): Promise<ReadonlySet<string>> => recordedKeys(store, signal);
  return { store, scope, manifest, root: settings.workdir, known, run, recorded, signal };
}

/** Exactly named inputs that the task needs to start, and that no attempt produces. */
export function neededOf(missing: readonly RelPath[], manifest: Manifest): readonly RelPath[] {
  return missing.filter((path) => {
    const { result, checkpoint } = manifest.rolesOf(path);
    return !result && !checkpoint;
  });
}

/**
 * Call it before an attempt is claimed: a start that cannot succeed uses up no number (`--max-attempts` counts them).
 * Throws status 66.
 */
export async function refuseMissingInputs(job: InputJob): Promise<void> {
  const { manifest, store, from } = job;
  const needed = neededOf(manifest.exact.inputs, manifest);
  const first = await findInputs(searchOf(job, from, new Set()), needed);
  if (first.missing.length === 0) return;
  const second = from === store ? first : await findInputs(searchOf(job, store, new Set()), first.missing);
  if (second.missing.length > 0)
    throw await missingInputs(job, second.missing, [...first.ofOtherRuns, ...second.ofOtherRuns]);
}

export async function missingInputs(
  { settings, store, from }: InputJob,
  needed: readonly RelPath[],
  ofOtherRuns: readonly OtherRunsResult[],
): Promise<CaptureError> {
  const there = ofOtherRuns.find(({ path }) => needed.includes(path));
  const hint =
    there === undefined
      ? 'put it into the work directory, store it under its plain name, or name its store with --from'
      : `${describeRun(there.runId)} has stored ${showPath(there.path)}, which another run does not see: use its --run, or store it under its plain name`;
  const stores = await Promise.all(
    [...new Set([from.url, store.url])].map(
      async (url) => `in ${url}${(await isMissing(url)) ? ' (there is no such directory)' : ''}`,
    ),
  );
  const names = needed.slice(0, NAMED).map(showPath).join(', ');
  return new CaptureError(
    EXIT.inputMissing,
    `${plural(needed.length, 'input')} neither in ${settings.workdir} nor ${stores.join(' nor ')}: ${names}`,
    { hint },
  );
}

export function reportUnusedInputs(
  { store, log }: InputJob & { readonly log: Log },
  { ofOtherRuns, leftOut }: Pick<FoundInputs, 'ofOtherRuns' | 'leftOut'>,
): void {
  if (ofOtherRuns.length > 0) {
    const named = ofOtherRuns
      .slice(0, NAMED)
      .map(({ path, runId }) => `${showPath(path)} (${describeRun(runId)})`);
    const more = ofOtherRuns.length > NAMED ? `, and ${ofOtherRuns.length - NAMED} more` : '';
    log.info(`not used as inputs, as other runs have stored them: ${named.join(', ')}${more}`);
  }
  if (leftOut > 0)
    log.debug(`--inputs matches ${plural(leftOut, 'object')} of capture's own in ${store.url}: left out`);
}

const READ_AT_ONCE = 8;
/** Bytes that are kept for each index while all are listed. */
const NEWEST_BYTES = 300;

/** Keys of results in the newest record of each index of each task. */
export async function recordedKeys(store: Store, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const most = Math.floor(roomInHeap() / NEWEST_BYTES);
  const newest = new Map<string, string>();
  for await (const { key } of store.list(TASKS_PREFIX, signal)) {
    const at = parseRecordKey(key);
    // The claim of an attempt, its first record, names no results.
    if (at === undefined || at.seq === 0 || at.kind === 'list') continue;
    newest.set(key.slice(0, key.lastIndexOf('/')), key);
    if (newest.size > most) throw tooManyForHeap(`indices of all tasks in ${store.url}`, most);
  }
  const keys = new Set<string>();
  const read = async (key: string): Promise<void> => {
    const [, taskName = '', index = ''] = key.split('/');
    const listing = { scope: { taskName, index }, keys: [key], newestAttempt: 0 };
    const { records } = await readNewest(store, listing, { signal });
    for (const { results } of records) for (const file of results) keys.add(file.key);
  };
  await pLimit(READ_AT_ONCE).map(newest.values(), read);
  return keys;
}
