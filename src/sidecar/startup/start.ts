// Everything before the task may start: locks the work directory, claims the attempt, reads what earlier ones have
// stored, restores. Ends with a context that owns the index, or with nothing started and nothing changed.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import type { Log } from '../../log/log.ts';
import { warnOnce } from '../../log/once.ts';
import { generationName, withJudgements } from '../../model/checkpoint/history.ts';
import { CaptureError, type Mistake, reasonOf } from '../../model/errors.ts';
import { compileManifest, fixedPart } from '../../model/file/manifest.ts';
import { ENDINGS, escapePath, type KeyScope, recordPrefix } from '../../model/format/keys.ts';
import type { CaptureRecord } from '../../model/format/records.ts';
import { keyIndex, type Settings } from '../../model/format/settings.ts';
import { LinkRate } from '../../model/link-rate.ts';
import { fingerprintRow } from '../../model/packed/fields.ts';
import { PackedMap, Paths } from '../../model/packed/packed-map.ts';
import { encodePath } from '../../model/path.ts';
import type { WorkDir } from '../../native/beneath.ts';
import { clockMs } from '../../native/clock.ts';
import { ignoreLeaseBreaks } from '../../native/files.ts';
import { orGivenUp } from '../../native/given-up.ts';
import { SMALL_BYTES } from '../../read/small-file.ts';
import { MountsBeneath } from '../../native/mounts.ts';
import { openReclaimer, type Reclaimer } from '../../reclaim/reclaim.ts';
import { describeRecovered, recoverReclaims } from '../../reclaim/recover.ts';
import { Baselines, type Ledger, type RunFacts } from '../../records/ledger.ts';
import { listRecords, type RecordListing } from '../../records/list.ts';
import { clearStaging } from '../../restore/fetch.ts';
import { openSealKeys, type SealKeys } from '../../seal/keys.ts';
import { sealedStore } from '../../seal/sealed-store.ts';
import type { Store } from '../../store/contract/store.ts';
import { openStore } from '../../store/open.ts';
import { Bandwidth } from '../../upload/bandwidth.ts';
import type { Sender } from '../../upload/send.ts';
import { type AttemptFile, readAttemptFile } from '../run/attempt-file.ts';
import type { Caller, Context, Needs } from '../run/context.ts';
import { CloseStack } from '../../model/close-stack.ts';
import { Progress } from '../run/progress.ts';
import { TaskNews } from '../run/task-news.ts';
import type { Places } from '../run/places.ts';
import type { OwnUse, Shared } from '../run/shared.ts';
import { type AttemptOptions, openAttempt } from './attempt.ts';
import { refuseAtWork } from './at-work.ts';
import { doneAttempt } from './done-already.ts';
import { endEarlierTask } from './earlier-task.ts';
import { handoverFor, restoredBefore } from './handover.ts';
import { refuseMissingInputs } from './input-search.ts';
import { cannotWrite, lockWorkdir } from './lock.ts';
import { isMissing } from './opening-lines.ts';
import type { Patience } from './patience.ts';
import { Refusal } from './refusal.ts';
import { restore, type Restored } from './restore.ts';
import { sealRun } from './sealing.ts';
import { openRunPool, spoolWarner } from './workers.ts';

export interface StartedAttempt {
  readonly kind: 'started';
  readonly context: Context;
  readonly restored: Restored;
  /** The store is a directory that this attempt has created. */
  readonly storeWasMissing: boolean;
  /** The last record, if the replaced sidecar died after writing it. */
  readonly ended: CaptureRecord | undefined;
  /** Call it before `close` if the start fails after all, so that the store says why. Never throws. */
  readonly refused: (error: unknown) => Promise<void>;
  /** Closes everything that the start opened, in the right order. */
  readonly close: () => Promise<void>;
}

/** Before the task starts, requests to the store wait no longer than `patience` allows. */
export interface StartOptions extends AttemptOptions {
  readonly patience: Patience;
  readonly shared: Shared;
  readonly caller: Caller;
  /** The pid of the launcher. */
  readonly launcher?: number | undefined;
  /** `capture watch --exit-file`: true if the file already says how the task ended. */
  readonly hasEnded?: (() => boolean) | undefined;
}

export type StartResult = StartedAttempt | { readonly kind: 'done-already'; readonly attempt: number };

export async function startAttempt(options: StartOptions): Promise<StartResult> {
  const owned = new CloseStack();
  const refusal = new Refusal();
  owned.add(options.patience, (patience) => patience.close());
  try {
    const opened = await openWorkdirAndStore(options, owned);
    const { settings, attempt, patience } = options;
    if (settings.skipDone && attempt === undefined) {
      const done = await doneAttempt(opened.store, opened.listing, settings, patience.signal);
      if (done !== undefined) {
        await owned.close();
        return { kind: 'done-already', attempt: done };
      }
    }
    if (attempt === undefined) refuseAtWork(opened.listing, settings.lastSeen);
    await takeWorkdir(options, opened.root, owned);
    return await beginAttempt(options, { ...opened, refusal }, owned);
  } catch (error) {
    // What ended the start says more than what it ended.
    await refusal.record(options.signal.aborted ? options.signal.reason : error, options.settings);
    await owned.close();
    throw error;
  }
}

/** The work directory, and the store that its files go to. */
interface WorkdirAndStore {
  readonly root: WorkDir;
  readonly store: Store;
  readonly scope: KeyScope;
  /** The store's records before this attempt. */
  readonly listing: RecordListing;
  readonly keys: SealKeys;
  /** Without {@link sealedStore}. */
  readonly inner: Store;
  readonly storeWasMissing: boolean;
}

async function openWorkdirAndStore(options: StartOptions, owned: CloseStack): Promise<WorkdirAndStore> {
  const { settings, patience, shared, caller } = options;
  const { workdir, identity } = settings;
  // Before anything is asked or changed: nothing may fail here once the task runs.
  const keys = await openSealKeys(settings.seal, caller.env, { signal: patience.signal });
  const { O_RDONLY, O_DIRECTORY } = fs.constants;
  const fd = owned.add(fs.openSync(encodePath(workdir), O_RDONLY | O_DIRECTORY), fs.closeSync);
  // Its answer is awaited after that of the listing, which has a limit.
  const missing = isMissing(settings.to.url);
  const { connections } = shared;
  const opened = await openStore(settings.to, { onTry: patience.tried, warn: warner(options), connections });
  const inner = owned.add(patience.over(opened), (one) => one.close());
  const store = sealedStore(inner, { keys, reader: 'look' });
  const scope = { taskName: identity.taskName, index: keyIndex(identity) };
  const listing = await listRecords(store, scope, patience.signal);
  const storeWasMissing = await orGivenUp(missing, patience.signal);
  return { root: { fd, path: workdir }, store, inner, keys, scope, listing, storeWasMissing };
}

/** The attempt's first sidecar has given these warnings already. */
function warner({ attempt, log }: StartOptions): (warning: Mistake) => void {
  return (warning) => {
    if (attempt === undefined) warnOnce(log, warning);
  };
}

/** The work directory is ours from here on: ends what a dead sidecar had begun in it. */
async function takeWorkdir(
  { settings, log, attempt, standalone, launcher }: StartOptions,
  root: WorkDir,
  owned: CloseStack,
): Promise<void> {
  owned.add(lockWorkdir(settings.workdir, settings.sharedWorkdir), (lock) => lock.close());
  ignoreLeaseBreaks();
  if (settings.sharedWorkdir) return;
  if (attempt === undefined && standalone !== true) await endEarlierTask(settings, launcher, log);
  await whateverCanBeWritten({ attempt, log, settings }, 'what an earlier start has left stays', async () => {
    for (const one of recoverReclaims(root)) log.warn(describeRecovered(one));
    await clearStaging(root);
  });
}

/**
 * The task of a replaced sidecar keeps writing: everything that can be read must be stored, even if the file system has
 * become read-only. Before the task starts, a failed write ends the start.
 */
async function whateverCanBeWritten<T>(
  { attempt, log, settings }: Pick<AttemptOptions, 'attempt' | 'log' | 'settings'>,
  otherwise: string,
  act: () => Promise<T> | T,
): Promise<T | undefined> {
  try {
    return await act();
  } catch (error) {
    if (attempt === undefined)
      throw error instanceof CaptureError ? error : cannotWrite(settings.workdir, error);
    log.warn(`${otherwise}: ${reasonOf(error)}`);
    return undefined;
  }
}

async function beginAttempt(
  options: StartOptions,
  workdirAndStore: WorkdirAndStore & { readonly refusal: Refusal },
  owned: CloseStack,
): Promise<StartResult> {
  const { settings, log, outage, patience, caller } = options;
  const { signal } = patience;
  const { root, keys, listing, storeWasMissing, refusal } = workdirAndStore;
  const isNew = options.attempt === undefined;
  const resumed = isNew ? undefined : readAttemptFile(settings, options.attempt);
  const sealing = await sealRun({ ...workdirAndStore, sealKey: resumed?.sealKey, isNew, signal });
  const { store, scope, sealKey } = sealing;
  const from = await openFrom(options, { store, keys }, owned);
  const manifest = compileManifest(settings.manifest);
  if (isNew) await refuseMissingInputs({ settings, scope, manifest, store, from, signal });
  const paths = new Paths();
  const opened = await openAttempt({ ...options, ...sealing, signal, listing, resumed, paths, refusal });
  if ('done' in opened) {
    await owned.close();
    return { kind: 'done-already', attempt: opened.done };
  }
  const { ended, facts, ...records } = opened;
  // Left by earlier attempts, or by the dead sidecar that this one replaces.
  if (facts.attempt > 1 || resumed !== undefined) await sweepOwn(store, settings, scope, signal);
  const { history, ledger } = records;
  const progress = new Progress(log.draw);
  const mounts = new MountsBeneath(root);
  const common = { settings, scope, manifest, root, mounts, store, log, caller, signal, progress };
  const restored =
    resumed === undefined
      ? await restore({ ...common, from, history })
      : restoredBefore(resumed.handover?.restored, ledger.generations);
  noteRestored(ledger, restored);
  ledger.restored ??= history.attempts.findLast(({ attempt }) => attempt === facts.attempt)?.restored;
  const { attempt, runToken, startedAt } = facts;
  const { use, ...sending } = openSendingResources(options, root, owned);
  const reclaimer = await reclaimerOf(options, root);
  const context: Context = {
    ...common,
    ...records,
    signal: options.signal,
    outage,
    paths,
    attempt,
    runToken,
    startedAt,
    sealKey,
    ...knownBefore(resumed, ledger, paths),
    lacking: resumed?.lacking ?? restored.lacking,
    resumed: resumed === undefined ? undefined : resumed.handover?.restored ? 'handed-over' : 'replaced',
    handover: options.standalone === true ? handoverFor(settings) : undefined,
    sender: { ...senderOf(settings, facts, log), ...sending.sender, root, mounts, store },
    places: sending.places,
    use,
    reclaimer: owned.add(reclaimer, (one) => one?.close()),
    now: clockMs,
    taskNews: new TaskNews(clockMs, options.hasEnded),
  };
  const refused = (error: unknown): Promise<void> => recordRefusal(options, { refusal, attempt }, error);
  return { kind: 'started', context, restored, storeWasMissing, ended, refused, close: owned.close };
}

/** Undefined if nothing is ever reclaimed. */
async function reclaimerOf(options: StartOptions, root: WorkDir): Promise<Reclaimer | undefined> {
  if (!mayReclaim(options.settings)) return undefined;
  return whateverCanBeWritten(options, 'local files stay', () => openReclaimer(root));
}

/** What the restore has found out, for the records of this attempt. */
function noteRestored(ledger: Ledger, { generation, judgements, unrecorded }: Restored): void {
  ledger.setGenerations(withJudgements(ledger.generations, judgements));
  for (const file of unrecorded) ledger.noteFound(file);
  ledger.restored = generation === undefined ? undefined : generationName(generation);
}

/** The attempt has no last record if a `capture watch` in this work directory goes on with it. */
async function recordRefusal(
  { settings, launcher }: StartOptions,
  { refusal, attempt }: { readonly refusal: Refusal; readonly attempt: number },
  error: unknown,
): Promise<void> {
  if (launcher === undefined && readAttemptFile(settings, attempt) !== undefined) return;
  await refusal.record(error, settings);
}

/** `--from`, else the store itself. */
async function openFrom(
  options: StartOptions,
  { store, keys }: { readonly store: Store; readonly keys: SealKeys },
  owned: CloseStack,
): Promise<Store> {
  const { settings, patience, shared } = options;
  if (settings.from === undefined) return store;
  const { connections } = shared;
  const opened = await openStore(settings.from, {
    onTry: patience.tried,
    warn: warner(options),
    connections,
  });
  const patient = owned.add(patience.over(opened), (one) => one.close());
  return sealedStore(patient, { keys, reader: 'run' });
}

/** What the run sends with, and shares with other runs. */
interface SendingResources {
  readonly sender: Pick<Sender, 'workers' | 'bandwidth'>;
  readonly places: Places;
  readonly use: OwnUse;
}

function openSendingResources(
  { settings, log, shared }: StartOptions,
  root: WorkDir,
  owned: CloseStack,
): SendingResources {
  const use = owned.add(shared.begin(), (one) => one.end());
  const share = shared.pushResources(settings, () => openRunPool(settings, log, shared.isMany));
  owned.add(share, ({ release }) => release());
  const { pool, places, link } = share.value;
  const workers = owned.add(pool.open(root, SMALL_BYTES), (one) => one.close());
  const { bandwidthBytes } = settings;
  const bandwidth = bandwidthBytes === undefined ? undefined : new Bandwidth(bandwidthBytes, link);
  return { sender: { workers, bandwidth }, places, use };
}

/** What the objects of this attempt carry. */
function senderOf(
  settings: Settings,
  { attempt, runToken, scope }: RunFacts,
  log: Log,
): Omit<Sender, 'root' | 'mounts' | 'store' | 'workers' | 'bandwidth'> {
  const { compression, identity } = settings;
  const onSpoolFull = spoolWarner(log, settings);
  const { runId } = identity;
  const { index } = scope;
  const link = compression.kind === 'zstd' && compression.level === 'auto' ? new LinkRate() : undefined;
  return { attempt, runToken, index, runId, compression, link, onSpoolFull, newId: randomUUID };
}

function mayReclaim({ reclaim, sharedWorkdir }: Settings): boolean {
  return reclaim !== 'never' && !sharedWorkdir;
}

/** What the replaced sidecar has left: content that needs no push, and what the task inherited. */
function knownBefore(
  resumed: AttemptFile | undefined,
  ledger: Ledger,
  paths: Paths,
): Needs<'baselines' | 'inherited' | 'shut'> {
  const baselines = new Baselines(ledger);
  for (const [path, baseline] of resumed?.baselines ?? [])
    if (!ledger.results.has(path)) baselines.set(path, baseline);
  const inherited = new PackedMap(fingerprintRow, paths);
  for (const [path, fingerprint] of resumed?.inherited ?? []) inherited.set(path, fingerprint);
  return { baselines, inherited, shut: new Map(resumed?.shut) };
}

/** Removes the unfinished uploads of earlier attempts of this very index. */
async function sweepOwn(
  store: Store,
  settings: Settings,
  scope: KeyScope,
  signal: AbortSignal,
): Promise<void> {
  const result = new RegExp(`\\.${scope.index}(\\.partial-\\d+)?(\\.~\\d+~)?${ENDINGS}$`);
  const checkpoint = `.${scope.taskName}.${scope.index}.`;
  const record = recordPrefix(scope);
  const mine = (key: string): boolean =>
    result.test(key) || key.includes(checkpoint) || key.startsWith(record);
  const prefixes = [
    ...settings.manifest.results,
    ...settings.manifest.checkpoints,
    ...settings.manifest.companions,
  ].map((pattern) => escapePath(fixedPart(pattern).replace(/\/$/, '')));
  const all = [...new Set([...prefixes, record])];
  // A listing of one prefix includes everything below a longer one.
  const shortest = all.filter((one) => !all.some((other) => other !== one && one.startsWith(other)));
  // oxlint-disable-next-line no-await-in-loop -- few, and one at a time is kinder to the store
  for (const prefix of shortest) await store.sweep(prefix, mine, signal);
}
