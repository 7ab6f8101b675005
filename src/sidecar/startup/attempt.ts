// Opens this attempt: claims its number, reads what earlier attempts have stored, and opens its ledger.
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import type { Log } from '../../log/log.ts';
import { type History, newestGeneration, unionOf } from '../../model/checkpoint/history.ts';
import { firstNumber } from '../../model/checkpoint/takeovers.ts';
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { compileManifest } from '../../model/file/manifest.ts';
import { type KeyScope, recordKey } from '../../model/format/keys.ts';
import {
  type CaptureRecord,
  isLast,
  type StoredFile,
  TAKEOVERS_LIMIT,
  textWithSum,
  type SealedNote,
} from '../../model/format/records.ts';
import type { Settings } from '../../model/format/settings.ts';
import { submissionNote } from '../../model/outcome/other-runs.ts';
import { PackedMap, type Paths } from '../../model/packed/packed-map.ts';
import { storedFileRow } from '../../model/packed/stored-file-row.ts';
import { showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { claimAttempt, Fence, type FencedError, isClaim, readClaim, Tidy } from '../../records/claim.ts';
import { Ledger, type RunFacts, runFields } from '../../records/ledger.ts';
import { listRecords, listWithClaim, newestSeq, type RecordListing } from '../../records/list.ts';
import { readNewest, type ReadRecords } from '../../records/read.ts';
import { isLost, type Store, StoreError } from '../../store/contract/store.ts';
import type { AttemptFile } from '../run/attempt-file.ts';
import type { Outage } from '../run/outage.ts';
import { doneAttempt } from './done-already.ts';
import type { Refusal } from './refusal.ts';

export interface AttemptOptions {
  readonly settings: Settings;
  /** Set if this sidecar replaces a dead one of the attempt. */
  readonly attempt: number | undefined;
  /** No launcher knows the attempt's number: the next `capture watch` finds it in the work directory. */
  readonly standalone?: boolean;
  readonly log: Log;
  readonly outage: Outage;
  readonly onFenced: (error: FencedError) => void;
  readonly signal: AbortSignal;
}

export interface Attempt {
  readonly facts: RunFacts;
  readonly history: History;
  readonly ledger: Ledger;
  readonly fence: Fence;
  readonly tidy: Tidy;
  /** The last record of this attempt, if the replaced sidecar died after writing it. */
  readonly ended: CaptureRecord | undefined;
  /** The resources of this attempt that the replaced sidecar had recorded. */
  readonly usedBefore: CaptureRecord['resources'];
}

/** What the claim needs in addition to the options. */
interface Opening extends AttemptOptions {
  readonly store: Store;
  readonly scope: KeyScope;
  /** What the store held a moment ago. */
  readonly listing: RecordListing;
  /** The attempt file that the replaced sidecar has left. */
  readonly resumed: AttemptFile | undefined;
  readonly paths: Paths;
  readonly sealed?: SealedNote | undefined;
  /** Learns what a start that fails from here on leaves in the store. */
  readonly refusal: Refusal;
}

/**
 * Claims the next attempt (or continues the given one), then reads the records, then records what it has read. `done`:
 * with `--skip-done`, another attempt has ended between our look and our claim; then nothing is recorded.
 */
export async function openAttempt(opening: Opening): Promise<Attempt | { readonly done: number }> {
  const facts = await claimOrResume(opening);
  opening.log.ofAttempt(facts.attempt);
  const { settings, attempt, store, scope, signal } = opening;
  // The listing must show the claim that was just made: a listing without it may hide everything that is stored.
  const askedMs = performance.now();
  const listing =
    attempt === undefined
      ? await listWithClaim(store, scope, facts.attempt, { signal })
      : await listRecords(store, scope, signal);
  if (attempt === undefined && settings.skipDone) {
    const done = await doneAttempt(store, listing, settings, signal);
    if (done !== undefined) {
      // The claim stands for nothing; if it stays, the index counts as running for a while.
      await store.delete([recordKey(scope, facts.attempt, 0, 'started')], signal).catch(() => undefined);
      return { done };
    }
  }
  return { facts, ...(await openLedger(opening, facts, { listing, askedMs })) };
}

async function claimOrResume({
  settings,
  attempt,
  signal,
  store,
  scope,
  listing,
  resumed,
  sealed,
}: Opening): Promise<RunFacts> {
  const { identity } = settings;
  const common = {
    scope,
    runId: identity.runId,
    runToken: resumed?.runToken ?? (await claimedBy(store, scope, attempt, signal)) ?? randomUUID(),
    host: os.hostname(),
    argv: identity.argv,
    scheduler: identity.scheduler,
    startedAt: resumed?.startedAt ?? new Date().toISOString(),
    sealed,
  };
  if (attempt !== undefined) return { ...common, attempt };
  const claimed = await claimAttempt({
    store,
    scope,
    listing,
    unfenced: settings.to.unfenced,
    yields: settings.lastSeen !== undefined,
    signal,
    bodyOf: (number) => startedRecord({ ...common, attempt: number }),
  });
  return { ...common, attempt: claimed };
}

/** The run token of an attempt that was claimed before, if the attempt file does not contain it. */
async function claimedBy(
  store: Store,
  scope: KeyScope,
  attempt: number | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (attempt === undefined) return undefined;
  const claim = await readClaim(store, scope, attempt, signal);
  return isClaim(claim) ? claim.runToken : undefined;
}

/** The body of the claim: an attempt that has stored nothing yet. */
function startedRecord(facts: RunFacts): { text: string; push: string } {
  const push = randomUUID();
  const record: CaptureRecord = {
    ...runFields(facts),
    kind: 'started',
    push,
    seq: 0,
    at: facts.startedAt,
    segments: [],
    results: [],
    partials: [],
    kept: {},
    generations: [],
    left: [],
  };
  return { text: textWithSum(record), push };
}

async function openLedger(
  { settings, attempt, log, outage, onFenced, signal, store, paths, resumed, refusal }: Opening,
  facts: RunFacts,
  { listing, askedMs }: { readonly listing: RecordListing; readonly askedMs: number },
): Promise<Omit<Attempt, 'facts'>> {
  const before = attempt === undefined ? facts.attempt : attempt + 1;
  const read = await readNewest(store, listing, { before, signal, paths });
  const { records, problems } = read;
  for (const problem of problems) log.warn(problem);
  // If a sidecar is replaced, its task is running already.
  if (attempt === undefined) refuseUnreadable(read, settings);
  // An attempt that died between its claim and its first full record has no information.
  const fullRecords = records.filter(({ record }) => record.seq > 0);
  const newMap = (): PackedMap<StoredFile> => new PackedMap(storedFileRow(facts.scope.index), paths);
  const history = unionOf(fullRecords, settings.identity.runId, newMap);
  warnAboutOtherMakers(history, settings, log);
  if (attempt === undefined)
    tellOfSubmissions(history, { before: facts.attempt, url: store.url }, settings, log);
  // This listing shows our claim and none after it, so no further request is needed.
  const isNewest = attempt === undefined && listing.newestAttempt === facts.attempt;
  const fence = new Fence(store, facts, {
    onFenced,
    onLooked: outage.looked,
    ...(isNewest ? { knownMs: askedMs } : {}),
  });
  const base = fullRecords.findLast(({ record }) => record.runId === settings.identity.runId);
  const tidy = new Tidy(store, fence, (error) =>
    log.warn(`objects that are not needed any more cannot be deleted and stay: ${reasonOf(error)}`, {
      hint: 'allow DeleteObject under this prefix, or let a lifecycle rule remove them',
    }),
  );
  const newest = fullRecords.at(-1)?.record;
  const own = newest?.attempt === facts.attempt ? newest : undefined;
  // Whoever handed the attempt over has ended: nothing of that is under way.
  const isTakeover = attempt !== undefined && !resumed?.handover?.restored;
  const seq = firstNumber(newestSeq(listing, facts.attempt), isTakeover);
  const generation = firstNumber(newestGeneration(history.generations, facts.attempt), isTakeover);
  const ledger = new Ledger(
    {
      store,
      fence,
      facts,
      history,
      base,
      takeovers: isTakeover ? [...(own?.takeovers ?? []), { seq, generation }].slice(-TAKEOVERS_LIMIT) : [],
      newId: randomUUID,
      tidy,
      paths,
    },
    seq,
  );
  refusal.opened(ledger, history);
  const usedBefore = own?.resources;
  const ended = own !== undefined && isLast(own.kind) ? own : undefined;
  ledger.used = () => usedBefore;
  if (ended === undefined)
    await ledger.write('started', {}, signal).catch((error: unknown) => {
      // The task is running: the next record contains the same, once the store has room for it or lets us in again.
      const isOver = signal.aborted || isLost(error) || !(error instanceof StoreError);
      if (attempt === undefined || isOver) throw error;
      log.warn(`that this sidecar goes on with the attempt is not recorded yet: ${error.message}`);
    });
  return { history, ledger, fence, tidy, ended, usedBefore };
}

/**
 * If records exist and cannot be read, the task must not start from nothing: only they may name a stored checkpoint. If
 * only some records are damaged, only what they alone said is lost. Throws status 69 if earlier attempts of this run
 * have recorded something and no whole record is left. A claim that is still readable says which run its attempt
 * belonged to.
 */
export function refuseUnreadable(
  { records, problems, unreadable }: ReadRecords,
  { restore, identity, to }: Pick<Settings, 'restore' | 'identity' | 'to'>,
): void {
  const sameRun = records.filter(({ record }) => record.runId === identity.runId);
  if (!restore || sameRun.some(({ record }) => record.seq > 0)) return;
  const otherRuns = new Set(
    records.filter((one) => !sameRun.includes(one)).map(({ record }) => record.attempt),
  );
  const lost = unreadable.filter((attempt) => !otherRuns.has(attempt));
  if (lost.length === 0) return;
  throw new CaptureError(
    EXIT.unavailable,
    `no record of ${plural(lost.length, 'earlier attempt')} in ${to.url} is whole: ${problems[0] ?? ''}`,
    { hint: 'bring back a copy of the records (versions of the bucket); --no-restore starts from nothing' },
  );
}

/** This run may replace results of other runs, or of a run that was done: says so once, here. */
function tellOfSubmissions(
  history: History,
  about: { readonly before: number; readonly url: string },
  { manifest }: Settings,
  log: Log,
): void {
  const { rolesOf } = compileManifest(manifest);
  const note = submissionNote(history, { ...about, isResult: (path) => rolesOf(path).result });
  if (note !== undefined) log[note.level](note.message, { hint: note.hint });
}

function warnAboutOtherMakers(history: History, { identity }: Settings, log: Log): void {
  const last = history.attempts.findLast(({ sameRun }) => sameRun);
  if (last === undefined || history.generations.length === 0 || identity.argv.length === 0) return;
  if (last.argv.length === 0 || last.argv.join('\0') === identity.argv.join('\0')) return;
  log.warn(`the stored checkpoint was made by another command line: ${last.argv.map(showPath).join(' ')}`, {
    hint: '--run <id> keeps submissions apart, --no-restore starts from nothing',
  });
}
