// What becomes of a cut between `Cutting`, which took it, and `Commits`, which records it. One that was taken while the
// task runs waits for the objects that hold exactly its states, and never takes another state for one of them; the last
// one takes what there is, and says what is missing.
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

/** What cuts, commits and captures take of the run. */
type Uses = Needs<
  | 'settings'
  | 'manifest'
  | 'root'
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
  readonly context: Uses;
  readonly files: Files;
  readonly checkpoints: Checkpoints;
  readonly companions: Companions;
}

/** Everything is durable. */
interface WholeCut extends GenerationFiles {
  readonly kind: 'whole';
}

type CutProgress =
  | WholeCut
  | { readonly kind: 'waiting' }
  /** A state was overwritten before it was read. */
  | { readonly kind: 'lost'; readonly path: RelPath }
  /** It can never be stored as it is: every cut of this state would fail. */
  | { readonly kind: 'refused'; readonly path: RelPath }
  | { readonly kind: 'failed'; readonly error: unknown };

export class PendingCut {
  readonly #parts: CutParts;
  /** An object that was found stays found, even if the task has gone on to the next state. */
  readonly #objects = new Map<RelPath, StoredFile>();
  #capture: Capture | { readonly kind: 'waiting' } | { readonly kind: 'failed'; readonly error: unknown } = {
    kind: 'waiting',
  };

  readonly taken: TakenCut;
  /** How many closes it covers. */
  readonly closes: number;
  readonly #upTo: number | undefined;

  constructor(parts: CutParts, taken: TakenCut, closes: number) {
    this.#parts = parts;
    this.taken = taken;
    this.closes = closes;
    this.#upTo = newestClose(parts.files, taken.states.keys());
  }

  /**
   * Sends what its states lack before all other checkpoints, and has the companions stored as they are from now on; calls
   * `onCaptured` once these are stored or cannot be. `mayBeCut`: files that the next cut may hold; all others are dropped.
   */
  begin(mayBeCut: () => ReadonlySet<RelPath>, onCaptured: () => void): void {
    const { companions, context } = this.#parts;
    this.#goFirst(mayBeCut);
    if (!companions.areDue) {
      this.#capture = { kind: 'captured', companions: [] };
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

  /** Nothing more of it is sent: other checkpoints may go. */
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

  progress(): CutProgress {
    const capture = this.#capture;
    if (capture.kind === 'failed') return capture;
    if (capture.kind === 'moved') return { kind: 'lost', path: capture.path };
    const hopeless = this.#findHopeless();
    if (hopeless !== undefined) return hopeless;
    if (capture.kind === 'waiting' || this.#objects.size < this.taken.states.size) return { kind: 'waiting' };
    return {
      kind: 'whole',
      members: [...this.#objects.values()],
      companions: capture.companions,
      upTo: this.#upTo,
    };
  }

  /** Takes the objects that are there by now, and asks for those that nobody is sending. */
  #findHopeless(): Extract<CutProgress, { kind: 'lost' | 'refused' }> | undefined {
    const { checkpoints, files } = this.#parts;
    for (const [path, state] of this.taken.states) {
      if (this.#objects.has(path)) continue;
      const object = checkpoints.objectOf(path, state);
      if (object !== undefined) {
        this.#objects.set(path, object);
        checkpoints.held.release(path);
        if (this.#objects.size === this.taken.states.size) files.setFirst(undefined);
        continue;
      }
      // What is being sent may be this very state, read before the task went on.
      if (files.get(path, 'checkpoint')?.pushing === true) continue;
      if (!this.#canBeRead(path, state)) return { kind: 'lost', path };
      if (!files.want(path, 'checkpoint')) return { kind: 'refused', path };
    }
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

/** Of these checkpoint files; undefined if none was closed. */
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
  /** True if a death may have made the member's last close. */
  readonly suspect: (path: RelPath) => boolean;
  readonly nowMs: number;
  /** Aborts when no more files may be sent. */
  readonly deadline: AbortSignal;
}

/** Rejects if it could not be recorded. */
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
  // Inherited and never touched: there is nothing new to commit.
  const fresh = [...files.fileStates('checkpoint')].some(
    (fileState) => fileState.closes > 0 || (clean && fileState.durable !== undefined),
  );
  const suspects = members.filter(last.suspect);
  const suspect = suspects.length > 0;
  // A set that was cut at an instant proves to be whole if the task ends well.
  const committed = isNewest(ledger, whole) && !(clean && ledger.generations[0]?.instant === true);
  // What passed its check before the commit is good, whatever closed it.
  // If it was committed while the death came to light, the mark is due at once, as for what was there before.
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
    // The last record, which follows, carries it.
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
  /** Every companion is stored up to its present size. */
  readonly isWhole: boolean;
}

async function lastCapture(
  companions: CutParts['companions'],
  { deadline, clean }: LastCut,
  log: CutParts['context']['log'],
): Promise<LastCapture> {
  try {
    const capture = await companions.capture({ atCheckpoint: true, ended: !clean }, deadline);
    if (capture.kind === 'captured') return { companions: capture.companions, isWhole: true };
    log.warn(`companion ${showPath(capture.path)} is still being changed: what was stored before counts`);
  } catch (error) {
    if (!deadline.aborted) throw error;
    log.warn(`companions are not stored to their ends: ${reasonOf(error)}`);
  }
  return { companions: companions.current, isWhole: false };
}
