// A cut between `Cutting`, which took it, and `Commits`, which records it. A cut that was taken while the task runs
// waits for the objects that hold exactly its states, and never accepts another state instead. The last cut takes what
// there is, and says what is missing.
import { reasonOf } from '../../model/errors.ts';
import { type FileFacts, isInOrder, sameFingerprint } from '../../model/file/file-state.ts';
import type { Companion, StoredFile } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { factsBeneath } from '../../native/files.ts';
import type { Files } from '../queue/files.ts';
import type { Needs } from '../run/context.ts';
import type { Checkpoints } from './checkpoints.ts';
import {
  type GenerationFiles,
  isNewest,
  isRenewed,
  lastClosesOf,
  type Marks,
  markSuspect,
  nameInNewest,
} from './generation-record.ts';
import type { Capture, Companions } from './companions.ts';
import type { Cutting, TakenCut } from './cutting.ts';

/** The part of the context that cuts, commits and captures use. */
type CutContext = Needs<
  | 'settings'
  | 'startedAt'
  | 'manifest'
  | 'root'
  | 'mounts'
  | 'caller'
  | 'log'
  | 'attempt'
  | 'resumed'
  | 'handover'
  | 'inherited'
  | 'ledger'
  | 'history'
  | 'tidy'
  | 'lacking'
  | 'signal'
  | 'taskNews'
  | 'outage'
  | 'now'
>;

export interface CutParts {
  readonly context: CutContext;
  readonly files: Files;
  readonly checkpoints: Checkpoints;
  readonly companions: Companions;
}

/** Everything is durable. */
interface WholeCut extends GenerationFiles {
  readonly kind: 'whole';
  /** False if it lacks a companion that cannot be read. */
  readonly hasCompanions: boolean;
}

type CutProgress =
  | WholeCut
  | { readonly kind: 'waiting' }
  /** A state was overwritten before it was read. */
  | { readonly kind: 'lost'; readonly path: RelPath }
  /** A file can never be stored in this state: every cut of the state would fail. */
  | { readonly kind: 'refused'; readonly path: RelPath }
  | { readonly kind: 'failed'; readonly error: unknown };

export class PendingCut {
  readonly #parts: CutParts;
  /** An object that was found stays found, even if the task has moved on to the next state. */
  readonly #objects = new Map<RelPath, StoredFile>();
  /** The states whose object is still to be found. */
  readonly #lacking: Map<RelPath, FileFacts>;
  #nextLookMs = 0;
  #capture: Capture | { readonly kind: 'waiting' } | { readonly kind: 'failed'; readonly error: unknown } = {
    kind: 'waiting',
  };

  readonly taken: TakenCut;
  /** How many closes the cut covers. */
  readonly closes: number;
  readonly #upTo: number | undefined;

  constructor(parts: CutParts, taken: TakenCut, closes: number) {
    this.#parts = parts;
    this.taken = taken;
    this.closes = closes;
    this.#lacking = new Map(taken.states);
    this.#upTo = newestClose(parts.files, taken.states.keys());
  }

  /**
   * Sends the missing states before all other checkpoints, and has the companions stored in their state from now on.
   * Calls `onCaptured` once these are stored or cannot be. `mayBeCut`: files that the next cut may hold; all others are
   * dropped.
   */
  begin(mayBeCut: () => ReadonlySet<RelPath>, onCaptured: () => void): void {
    const { companions, context } = this.#parts;
    this.#goFirst(mayBeCut);
    if (!companions.areDue) {
      this.#capture = { kind: 'captured', companions: [], isWhole: true };
      return;
    }
    companions
      .capture({ atCheckpoint: true }, context.signal)
      .catch((error: unknown) => ({ kind: 'failed' as const, error }))
      .then((capture) => {
        this.#capture = capture;
        onCaptured();
      })
      .catch((error: unknown) => context.log.error('a checkpoint could not go on', { err: error }));
  }

  #goFirst(mayBeCut: () => ReadonlySet<RelPath>): void {
    const { checkpoints, files } = this.#parts;
    const { states } = this.taken;
    const lacking = [...states].filter(([path, state]) => checkpoints.objectOf(path, state) === undefined);
    for (const [path, state] of lacking)
      checkpoints.held.hold(path, state, files.get(path, 'checkpoint')?.closes ?? 0);
    let next: ReadonlySet<RelPath> | undefined;
    files.drop((path) => {
      const state = states.get(path);
      if (state !== undefined) return checkpoints.sendsOther(path, state);
      next ??= mayBeCut();
      return !next.has(path);
    });
    if (lacking.length > 0) files.setFirst(new Set(lacking.map(([path]) => path)));
  }

  /** Sends nothing more of the cut: other checkpoints may be sent. */
  end(): void {
    this.#parts.checkpoints.held.releaseAll();
    this.#parts.files.setFirst(undefined);
  }

  /** Objects that must not be deleted until the cut is committed. */
  get keys(): readonly string[] {
    const companions = this.#capture.kind === 'captured' ? this.#capture.companions : [];
    return [
      ...[...this.#objects.values()].map(({ key }) => key),
      ...companions.flatMap(({ segments }) => segments.map(({ key }) => key)),
    ];
  }

  /** `pushed`: a push of this file has ended. */
  progress(pushed?: RelPath): CutProgress {
    const capture = this.#capture;
    if (capture.kind === 'failed') return capture;
    if (capture.kind === 'moved') return { kind: 'lost', path: capture.path };
    if (pushed !== undefined) this.#findObject(pushed);
    const hopeless = this.#findHopeless();
    if (hopeless !== undefined) return hopeless;
    if (capture.kind === 'waiting' || this.#objects.size < this.taken.states.size) return { kind: 'waiting' };
    return {
      kind: 'whole',
      members: [...this.#objects.values()],
      companions: capture.companions,
      hasCompanions: capture.isWhole,
      upTo: this.#upTo,
    };
  }

  #findObject(path: RelPath): boolean {
    const state = this.#lacking.get(path);
    const object = state === undefined ? undefined : this.#parts.checkpoints.objectOf(path, state);
    if (object === undefined) return false;
    this.#lacking.delete(path);
    this.#objects.set(path, object);
    this.#parts.checkpoints.held.release(path);
    if (this.#lacking.size === 0) this.#parts.files.setFirst(undefined);
    return true;
  }

  /**
   * Takes the objects that exist by now, and requests a push of each file that is not being sent. With thousands of
   * files this takes a while, so it waits ten times as long in between, if a push will end meanwhile.
   */
  #findHopeless(): Extract<CutProgress, { kind: 'lost' | 'refused' }> | undefined {
    const { files } = this.#parts;
    const isPushing = (path: RelPath): boolean => files.get(path, 'checkpoint')?.pushing === true;
    const startMs = performance.now();
    if (startMs < this.#nextLookMs)
      for (const path of this.#lacking.keys()) if (isPushing(path)) return undefined;
    for (const [path, state] of this.#lacking) {
      // The push in flight may be sending this very state, read before the task moved on.
      if (this.#findObject(path) || isPushing(path)) continue;
      if (!this.#canBeRead(path, state)) return { kind: 'lost', path };
      if (!files.want(path, 'checkpoint')) return { kind: 'refused', path };
    }
    const endMs = performance.now();
    this.#nextLookMs = endMs + 10 * (endMs - startMs);
    return undefined;
  }

  #canBeRead(path: RelPath, state: FileFacts): boolean {
    const { checkpoints, context } = this.#parts;
    if (checkpoints.held.isWhole(path)) return true;
    checkpoints.held.release(path);
    const now = factsBeneath(context.root, path);
    return now !== undefined && sameFingerprint(now, state);
  }
}

/** The number of the newest close of these checkpoint files; undefined if none was closed. */
function newestClose(files: Pick<Files, 'get'>, members: Iterable<RelPath>): number | undefined {
  const places = [...members].flatMap((path) => {
    const close = files.get(path, 'checkpoint')?.lastClose;
    return close !== undefined && isInOrder(close.how) ? [close.seq] : [];
  });
  return places.length === 0 ? undefined : Math.max(...places);
}

export interface LastCut {
  /** Declared checkpoint files that exist. */
  readonly members: readonly RelPath[];
  readonly cutting: Cutting;
  readonly clean: boolean;
  /** True if the kernel may have made the member's last close for a dying process. */
  readonly suspect: (path: RelPath) => boolean;
  readonly nowMs: number;
  /** Aborts when no more files may be sent. */
  readonly deadline: AbortSignal;
}

/** Rejects if the generation could not be recorded. */
export type Commit = (generation: GenerationFiles, marks: Marks) => Promise<void>;

/** Resolves to the members that are not stored. Throws if the generation could not be recorded. */
export async function commitLast(
  { context, files, checkpoints, companions }: CutParts,
  last: LastCut,
  commit: Commit,
): Promise<readonly RelPath[]> {
  const { ledger, log, settings } = context;
  const { members, cutting, clean } = last;
  const objects = members.map((path) => {
    const facts = factsBeneath(context.root, path);
    return facts === undefined ? undefined : checkpoints.objectOf(path, facts);
  });
  const missing = members.filter((_, at) => objects[at] === undefined);
  const whole = objects.filter((object) => object !== undefined);
  // All files were inherited and never touched: there is nothing new to commit.
  const fresh = [...files.fileStates('checkpoint')].some(
    (fileState) => fileState.closes > 0 || (clean && fileState.durable !== undefined),
  );
  const suspects = members.filter(last.suspect);
  const suspect = suspects.length > 0;
  // A set that was cut at an instant is proven to be whole if the task ends well.
  const committed = isNewest(ledger, whole) && !(clean && ledger.generations[0]?.instant === true);
  // A set that passed its check before the commit is good, whichever process closed its files. If it was committed
  // while the death was being noticed, it must be marked at once, like the sets before it.
  if (
    settings.verify?.atCommit !== true &&
    markSuspect(context, lastClosesOf(suspects, { files, checkpoints }))
  )
    await ledger.write('stored', {}, context.signal);
  const isNew = fresh && whole.length > 0 && !committed;
  const held =
    isNew || !clean || companions.areWholeSet ? await lastCapture(companions, last, log) : undefined;
  if (companions.areWholeSet && held !== undefined) {
    if (isRenewed(ledger, held.companions))
      await commit({ members: [], companions: held.companions }, held.isWhole ? {} : { incomplete: true });
    return missing;
  }
  if (!isNew) {
    // The last record, which follows, includes it.
    if (held !== undefined) nameInNewest(context, held.companions);
    return missing;
  }
  const proof = clean ? 'end' : cutting.worthAtEnd(last.nowMs);
  const incomplete = missing.length > 0 || proof === 'incomplete' || held?.isWhole === false;
  await commit(
    { members: whole, companions: held?.companions ?? [], upTo: newestClose(files, members) },
    {
      ...(suspect ? { suspect } : {}),
      ...(incomplete ? { incomplete } : {}),
      ...(proof === 'instant' ? { instant: true } : incomplete ? {} : { proof }),
    },
  );
  if (missing.length > 0)
    log.warn(`the last checkpoint lacks ${missing.map(showPath).join(', ')}: marked incomplete`);
  return missing;
}

interface LastCapture {
  readonly companions: readonly Companion[];
  /** True if every companion is stored up to its present size. */
  readonly isWhole: boolean;
}

async function lastCapture(
  companions: CutParts['companions'],
  { deadline, clean }: LastCut,
  log: CutParts['context']['log'],
): Promise<LastCapture> {
  try {
    const capture = await companions.capture({ atCheckpoint: true, ended: !clean }, deadline);
    if (capture.kind === 'captured') return capture;
    log.warn(`companion ${showPath(capture.path)} is still being changed: what was stored before counts`);
  } catch (error) {
    if (!deadline.aborted) throw error;
    log.warn(`companions are not stored to their ends: ${reasonOf(error)}`);
  }
  return { companions: companions.current, isWhole: false };
}
