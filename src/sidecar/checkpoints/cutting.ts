// Takes the cuts that model/checkpoint/cut asks for: finds out which members exist, and their states at one instant
// at which none has a writer. Sends and commits nothing.
import fs from 'node:fs';
import {
  closesLost,
  cutGivenUp,
  type CutState,
  cutTaken,
  isOverdue,
  memberClosed,
  newCut,
  plan,
  type Plan,
  programSaid,
  type Proof,
} from '../../model/checkpoint/cut.ts';
import { type Candidate, chooseMembers } from '../../model/checkpoint/members.ts';
import { compileRotations, namesDirectories, type Rotates } from '../../model/checkpoint/rotation.ts';
import { type ClosedHow, type FileFacts, sameFingerprint } from '../../model/file/file-state.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { formatMs } from '../../model/units.ts';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import { lstatBeneath, type WorkDir } from '../../native/beneath.ts';
import { factsBeneath, factsOf, fileFacts, openBeneath, writerState } from '../../native/files.ts';
import type { ExistingPaths } from '../queue/file-states.ts';
import type { Files } from '../queue/files.ts';
import type { Needs } from '../run/context.ts';

/** What it takes of the run. */
type Uses = Needs<'settings' | 'manifest' | 'root' | 'log' | 'resumed' | 'now'>;

export interface CuttingOptions {
  readonly context: Uses;
  readonly files: Files;
  /** Delivers all closes that the kernel has queued by now. */
  readonly drainEvents: () => void;
  readonly isLast: (path: RelPath) => boolean;
  /** Members of the generation that was restored. */
  readonly restored: readonly RelPath[];
}

/** The states of all members at one instant. */
export interface TakenCut {
  readonly kind: 'cut';
  readonly states: ReadonlyMap<RelPath, FileFacts>;
  readonly proof: Proof;
  /** False if it leaves out directories that are still being written. */
  readonly isWhole: boolean;
  readonly before: CutState;
  readonly atMs: number;
}

export type Look =
  | TakenCut
  /** `lacks`: why no proven cut can be taken before something more is closed. `forMs`: look again after this time. */
  | { readonly kind: 'wait'; readonly forMs: number | undefined; readonly lacks: string | undefined };

/** A flush waits for this much quiet. A set that needs more is incomplete: something is probably still to come. */
const AWAITED_QUIET_MS = 5000;
/** How long to wait while a member is being written each time that a cut of an instant is due. */
const BACK_OFF: BackOff = { firstMs: 250, mostMs: 5000 };

export class Cutting {
  readonly #options: CuttingOptions;
  readonly #rotationOf: Rotates;
  /** States that a scan has told: their close event may come after it. */
  readonly #scanned = new Map<RelPath, FileFacts>();
  #state: CutState;
  #sendMs = 0;
  /** How many looks in a row found a member being written. */
  #busyLooks = 0;
  #told = false;

  constructor(options: CuttingOptions) {
    this.#options = options;
    const { settings, manifest, resumed } = options.context;
    const { checkpoints: patterns } = settings.manifest;
    const { checkpoints: exact } = manifest.exact;
    this.#rotationOf = compileRotations(patterns, (path) => manifest.matchIndex('checkpoints', path));
    const rules = {
      settleMs: settings.checkpointSettleMs,
      byLast: settings.checkpointLast !== undefined,
      rotationOf: this.#rotationOf,
    };
    const isRestored = options.restored.length > 0;
    this.#state = newCut(rules, {
      members: isRestored ? options.restored : exact,
      complete: isRestored || exact.length === patterns.length,
      inUnits: patterns.length === 1 && patterns.every(namesDirectories),
      inMidst: resumed === 'replaced',
    });
  }

  get state(): CutState {
    return this.#state;
  }

  /** How long sending a set takes, as measured. */
  get sendMs(): number {
    return this.#sendMs;
  }

  /** True if it counts as a step of its round. */
  closed(path: RelPath, how: ClosedHow, atMs: number): boolean {
    if (!this.#counts(path, how)) return false;
    const { lastDirectory } = this.#state;
    this.#state = memberClosed(this.#state, { path, how, atMs, isLast: this.#options.isLast(path) });
    if (lastDirectory !== undefined) this.#tellAfterLast();
    return true;
  }

  overflowed(): void {
    this.#state = closesLost(this.#state, this.#options.context.now());
  }

  /** The program says that what it has closed is whole. */
  said(): void {
    this.#state = programSaid(this.#state);
  }

  /** The set is committed. */
  sent(cut: TakenCut): void {
    this.#sendMs = this.#options.context.now() - cut.atMs;
  }

  /** `path`: the file that changed before it was read. */
  givenUp(cut: TakenCut, path?: RelPath): void {
    this.#state = cutGivenUp(this.#state, cut.before);
    if (path !== undefined && isOverdue(this.#state, this.#options.context.now(), this.#sendMs))
      this.#tell(`${showPath(path)} changes faster than it is sent`, 'write checkpoints less often');
  }

  /** Declared checkpoint files that exist, but for those that `--newest` leaves out. */
  members(): readonly RelPath[] {
    return this.#membersWithout(new Set());
  }

  /** Files that the next cut may hold, proven or not. */
  mayBeCut(): ReadonlySet<RelPath> {
    const open = this.#state.units?.open;
    return new Set([...this.members(), ...(open === undefined ? [] : this.#membersWithout(open))]);
  }

  /** Takes a cut if one is due. Call it once all closes of this moment have been told. */
  look(): Look {
    const nowMs = this.#options.context.now();
    const at = { nowMs, sendMs: this.#sendMs };
    const planned = plan(this.#state, { ...at, tried: false });
    if (planned.kind !== 'cut' || planned.proof === 'instant') return this.#follow(planned, nowMs, undefined);
    const proven = this.#take(planned, nowMs);
    if (proven.kind !== 'busy') return proven;
    return this.#follow(plan(this.#state, { ...at, tried: true }), nowMs, proven.path);
  }

  /** Asked once for each close, in their order. */
  #counts(path: RelPath, how: ClosedHow): boolean {
    const { root } = this.#options.context;
    if (how === 'close') {
      const state = this.#scanned.get(path);
      this.#scanned.delete(path);
      const now = state === undefined ? undefined : factsBeneath(root, path);
      return state === undefined || now === undefined || !sameFingerprint(state, now);
    }
    const collected = collectStates(root, [path]);
    if (collected.kind === 'busy') return false;
    const state = collected.states.get(path);
    if (how === 'scan' && state !== undefined) this.#scanned.set(path, state);
    return true;
  }

  #follow(planned: Plan, nowMs: number, busy: RelPath | undefined): Look {
    const lacks =
      busy === undefined ? 'more of it is still to be closed' : `${showPath(busy)} is being written`;
    switch (planned.kind) {
      case 'covered':
        return { kind: 'wait', forMs: undefined, lacks };
      case 'rest': {
        const forMs = planned.untilMs - nowMs;
        return { kind: 'wait', forMs, lacks: lacksQuiet(forMs) };
      }
      case 'wait':
        return { kind: 'wait', forMs: planned.untilMs && planned.untilMs - nowMs, lacks };
      case 'cut': {
        const taken = this.#take(planned, nowMs);
        if (taken.kind === 'cut') this.#tellAfterLast();
        return taken.kind === 'busy' ? this.#retry(taken.path, nowMs) : taken;
      }
    }
  }

  /** `path` is undefined if there is no member. */
  #take(
    { proof, without }: Extract<Plan, { kind: 'cut' }>,
    nowMs: number,
  ): Look | { readonly kind: 'busy'; readonly path: RelPath | undefined } {
    const { context, drainEvents } = this.#options;
    const members = this.#membersWithout(without);
    if (members.length === 0) return { kind: 'busy', path: undefined };
    const collected = collectStates(context.root, members);
    if (collected.kind === 'busy') return collected;
    const before = this.#state;
    drainEvents();
    // A close that was still on its way belongs to these states: we saw more than we had counted.
    if (this.#state !== before) return { kind: 'wait', forMs: 0, lacks: undefined };
    this.#state = cutTaken(before, proof, nowMs);
    this.#busyLooks = 0;
    const isWhole = without.size === 0;
    return { kind: 'cut', states: collected.states, proof, isWhole, before, atMs: nowMs };
  }

  #retry(busy: RelPath | undefined, nowMs: number): Look {
    if (busy === undefined) return { kind: 'wait', forMs: undefined, lacks: 'no file of it is left' };
    const forMs = pauseAfter(BACK_OFF, this.#busyLooks);
    this.#busyLooks += 1;
    const why = `${showPath(busy)} is being written`;
    if (isOverdue(this.#state, nowMs, this.#sendMs))
      this.#tell(
        `${why} each time that one is due`,
        'close it after each checkpoint; what the task keeps open and appends to is for --companions',
      );
    return { kind: 'wait', forMs, lacks: why };
  }

  #membersWithout(units: ReadonlySet<string>): readonly RelPath[] {
    const { context, files } = this.#options;
    return membersAmong(context, files.existing, this.#rotationOf, (unit) => units.has(unit));
  }

  #tell(why: string, hint: string): void {
    if (this.#told) return;
    this.#told = true;
    const { log, now } = this.#options.context;
    const forMs = now() - (this.#state.staleSinceMs ?? now());
    log.warn(`the newest checkpoint is older than what was closed ${formatMs(forMs)} ago: ${why}`, { hint });
  }

  /** Warns once that something is closed after the file of `--checkpoint-last`. */
  #tellAfterLast(): void {
    const { afterLast } = this.#state;
    if (this.#told || afterLast === undefined) return;
    this.#told = true;
    const { log, settings } = this.#options.context;
    log.warn(
      `${showPath(afterLast)} is closed after the file that --checkpoint-last '${settings.checkpointLast ?? ''}' ` +
        'names: the set that ends with that file is not whole',
      { hint: 'name the file that the program closes last' },
    );
  }
}

/** What a set lacks that is complete after being quiet for this long; undefined if a flush waits for that. */
function lacksQuiet(forMs: number): string | undefined {
  return forMs <= AWAITED_QUIET_MS ? undefined : `it must be quiet for ${formatMs(forMs)} more`;
}

type Collected =
  /** One moment at which no member had a writer. */
  | { readonly kind: 'cut'; readonly states: ReadonlyMap<RelPath, FileFacts> }
  | { readonly kind: 'busy'; readonly path: RelPath };

/**
 * The states of all members at one moment: collected twice, and taken only if nothing differs, so that every state
 * held at the instant in between. `busy`: a member has a writer, or vanished.
 */
export function collectStates(root: WorkDir, members: readonly RelPath[]): Collected {
  const first = collectOnce(root, members);
  if (first.kind === 'busy') return first;
  const second = collectOnce(root, members);
  if (second.kind === 'busy') return second;
  for (const [path, state] of first.states) {
    const again = second.states.get(path);
    if (again === undefined || !sameFingerprint(state, again)) return { kind: 'busy', path };
  }
  return second;
}

function collectOnce(root: WorkDir, members: readonly RelPath[]): Collected {
  const states = new Map<RelPath, FileFacts>();
  for (const path of members) {
    const state = stateOf(root, path);
    if (state === undefined) return { kind: 'busy', path };
    states.set(path, state);
  }
  return { kind: 'cut', states };
}

/** The state of one member; undefined while it has a writer, or if it is gone. */
function stateOf(root: WorkDir, path: RelPath): FileFacts | undefined {
  try {
    const fd = openBeneath(root, path);
    try {
      return writerState(fd) === 'writer' ? undefined : factsOf(fd);
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return linkState(root, path);
  }
}

function linkState(root: WorkDir, path: RelPath): FileFacts | undefined {
  const stat = lstatBeneath(root, path);
  return stat?.isSymbolicLink() === true ? fileFacts(stat) : undefined;
}

/** The declared checkpoint files that exist, without those that `--newest` or `isLeftOut` leaves out. */
export function membersAmong(
  { root, manifest, settings }: Uses,
  existing: ExistingPaths,
  rotationOf: Rotates,
  isLeftOut: (unit: string) => boolean = () => false,
): readonly RelPath[] {
  const candidates: Candidate[] = [];
  for (const path of existing.paths()) {
    const unit = rotationOf(path)?.unit ?? path;
    if (isLeftOut(unit)) continue;
    const facts = factsBeneath(root, path);
    existing.looked(path, facts !== undefined);
    if (facts !== undefined)
      candidates.push({
        path,
        mtimeNs: facts.mtimeNs,
        pattern: manifest.matchIndex('checkpoints', path),
        unit,
      });
  }
  return chooseMembers(candidates, settings.manifest.newest);
}
