// Takes the cuts that model/checkpoint/cut asks for: finds the members that exist, and their states at one instant at
// which none of them has a writer. Sends and commits nothing.
import fs from 'node:fs';
import os from 'node:os';
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
  roundLost,
  worthAtEnd,
} from '../../model/checkpoint/cut.ts';
import { type Candidate, type ChosenMembers, chooseMembers } from '../../model/checkpoint/members.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import { isGood, isProofOfLife } from '../../model/checkpoint/restore-order.ts';
import { firmOrder, isOrderless, type Order } from '../../model/checkpoint/rounds.ts';
import { compileRotations, namesDirectories, type Rotates } from '../../model/checkpoint/rotation.ts';
import {
  type ClosedHow,
  type FileFacts,
  type FileState,
  sameFingerprint,
} from '../../model/file/file-state.ts';
import type { Generation } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { formatMs, plural } from '../../model/units.ts';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import type { WorkDir } from '../../native/beneath.ts';
import { ageMs } from '../../native/clock.ts';
import { factsBeneath, factsOf, openBeneath, unseenForMs, writerState } from '../../native/files.ts';
import { typeBeneath } from '../../native/network-files.ts';
import { lookAt } from '../../watch/scan.ts';
import type { Files } from '../queue/files.ts';
import { readOrder, writeOrder } from '../run/attempt-file.ts';
import type { Needs } from '../run/context.ts';
import { isUnknown, presenceOf, type Unknown, unreadable } from '../run/presence.ts';
import { RotatingNames } from './rotating-names.ts';

type CuttingContext = Needs<
  | 'settings'
  | 'manifest'
  | 'root'
  | 'mounts'
  | 'log'
  | 'attempt'
  | 'resumed'
  | 'handover'
  | 'inherited'
  | 'ledger'
  | 'history'
  | 'now'
>;

export interface CuttingOptions {
  readonly context: CuttingContext;
  readonly files: Files;
  /** Delivers all closes that the kernel has queued. */
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
  /** False if directories that are still being written were left out. */
  readonly isWhole: boolean;
  readonly before: CutState;
  readonly atMs: number;
}

export type Look =
  | TakenCut
  /** `lacks`: why no proven cut can be taken before a further close. `forMs`: look again after this time. */
  | { readonly kind: 'wait'; readonly forMs: number | undefined; readonly lacks: string | undefined };

/**
 * A flush waits for a cut that is due within this time. If it takes longer, another close is probably still missing.
 */
const AWAITED_MS = 5000;
/** A program that writes in a fixed order has a proven set before this many unproven ones. */
const TOLD_AFTER = 10;
/** Names whose files were written within less than this may well belong to one checkpoint. */
const UNTOLD_NS = 60n * 1_000_000_000n;
/** How long to wait if a member is being written whenever a cut of an instant is due. */
const BACK_OFF: BackOff = { firstMs: 250, mostMs: 5000 };

export class Cutting {
  readonly #options: CuttingOptions;
  readonly #rotationOf: Rotates;
  /** Files that this attempt began with, from a set that was unproven, incomplete or suspect. */
  readonly #doubted: ReadonlySet<RelPath>;
  readonly #rotating: RotatingNames;
  /** States that a scan is reporting: the event of the same close may be queued. */
  readonly #scanned = new Map<RelPath, FileFacts>();
  #state: CutState;
  /** As the next sidecar of this attempt would find it. */
  #order: Order | undefined;
  #sendMs = 0;
  /** How many consecutive looks found a member being written. */
  #busyLooks = 0;
  /** How many sets of an instant there were before the first proven one. */
  #unproven = 0;
  #hasWarned = false;
  #toldNewest = false;
  #hasToldUnread = false;

  constructor(options: CuttingOptions) {
    this.#options = options;
    const { settings, manifest, resumed, attempt } = options.context;
    const { checkpoints: patterns } = settings.manifest;
    const { checkpoints: exact } = manifest.exact;
    this.#rotationOf = compileRotations(patterns, (path) => manifest.matchIndex('checkpoints', path));
    const rules = {
      settleMs: settings.checkpointSettleMs,
      byLast: settings.checkpointLast !== undefined,
      rotationOf: this.#rotationOf,
    };
    this.#doubted = doubtedOf(options.context);
    this.#rotating = new RotatingNames(options.context, this.#rotationOf);
    for (const path of options.restored) this.#rotating.countCheckpoints(path);
    const isRestored = options.restored.length > 0;
    this.#order = resumed === undefined ? undefined : readOrder(settings, attempt);
    this.#state = newCut(rules, {
      members: isRestored ? options.restored : exact,
      complete: isRestored || exact.length === patterns.length,
      inUnits: patterns.length === 1 && patterns.every(namesDirectories),
      startsMidRound: resumed === 'replaced',
      order: this.#order,
    });
  }

  get state(): CutState {
    return this.#state;
  }

  /** True if the close counts as a step of its round. */
  closed(path: RelPath, how: ClosedHow, atMs: number): boolean {
    if (!this.#counts(path, how)) return false;
    if (this.#wasBefore(path, how)) this.#state = roundLost(this.#state);
    const { lastDirectory } = this.#state;
    const isLast = this.#options.isLast(path);
    const rotates = this.#rotating.countCheckpoints(path);
    const writtenMs = writtenMsOf(this.#options.context.root, path);
    this.#state = memberClosed(this.#state, { path, how, atMs, writtenMs, isLast, rotates });
    if (lastDirectory !== undefined) this.#warnAfterLast();
    this.#keepOrder();
    return true;
  }

  overflowed(): void {
    this.#state = closesLost(this.#state, this.#options.context.now());
  }

  /** The program says that the files it has closed are whole. */
  said(): void {
    this.#state = programSaid(this.#state);
  }

  /** The set was committed. */
  sent({ atMs, proof }: TakenCut): void {
    this.#sendMs = this.#options.context.now() - atMs;
    this.#unproven = proof === 'instant' ? this.#unproven + 1 : -Infinity;
    const { rules, units, rounds } = this.#state;
    const canTell = rules.byLast || units !== undefined || !isOrderless(rounds);
    if (this.#unproven >= TOLD_AFTER && !canTell) this.#tellOrderless();
  }

  #tellOrderless(): void {
    const what = 'nothing has shown yet when a checkpoint set is whole';
    const newest = '--newest says that the number in a name counts checkpoints; ';
    const others =
      '--checkpoint-last names the file that the program closes last; or let it call capture flush after each checkpoint';
    this.#options.context.log.warn(
      `${what}: all ${this.#unproven} so far are as their files were at one instant`,
      { hint: this.#rotating.areAmbiguous ? `${newest}${others}` : others },
    );
    this.#unproven = -Infinity;
  }

  /** `path`: the file that changed before it was read. */
  givenUp(cut: TakenCut, path?: RelPath): void {
    this.#state = cutGivenUp(this.#state, cut.before);
    if (path !== undefined && isOverdue(this.#state, this.#options.context.now(), this.#sendMs))
      this.#tell(`${showPath(path)} changes faster than it is sent`, 'write checkpoints less often');
  }

  /** Declared checkpoint files that exist, except those that `--newest` leaves out. */
  members(): readonly RelPath[] {
    return this.#membersWithout(new Set());
  }

  /** Files that the next cut may hold, proven or not. */
  mayBeCut(): ReadonlySet<RelPath> {
    const open = this.#state.units?.open;
    return new Set([...this.members(), ...(open === undefined ? [] : this.#membersWithout(open))]);
  }

  /** How far the members can be trusted at the end of a task that failed or was stopped. */
  worthAtEnd(nowMs: number): Proof | 'incomplete' {
    const worth = worthAtEnd(this.#state, nowMs, this.#sendMs);
    return worth === 'incomplete' ? worth : this.#worthWith(worth, this.members());
  }

  /** Takes a cut if one is due. Call it once all closes up to this moment were reported. */
  look(): Look {
    const nowMs = this.#options.context.now();
    const at = { nowMs, sendMs: this.#sendMs };
    const planned = plan(this.#state, { ...at, tried: false });
    if (planned.kind !== 'cut' || planned.proof === 'instant') return this.#follow(planned, nowMs, undefined);
    const proven = this.#take(planned, nowMs);
    if (proven.kind !== 'busy') return proven;
    return this.#follow(plan(this.#state, { ...at, tried: true }), nowMs, proven.why);
  }

  /** `capture watch` may start while the task is running: did the task write the file before that? */
  #wasBefore(path: RelPath, how: ClosedHow): boolean {
    const { handover, resumed, inherited } = this.#options.context;
    return handover !== undefined && (how === 'scan' || (resumed === undefined && inherited.has(path)));
  }

  #keepOrder(): void {
    const order = firmOrder(this.#state.rounds);
    const { settings, attempt } = this.#options.context;
    if ((order === undefined) !== (this.#order === undefined)) writeOrder(settings, attempt, order);
    this.#order = order;
  }

  /** Call it once for each close, in their order. */
  #counts(path: RelPath, how: ClosedHow): boolean {
    const { context } = this.#options;
    if (how === 'close') {
      const state = this.#scanned.get(path);
      const now = state === undefined ? undefined : factsBeneath(context.root, path);
      return state === undefined || now === undefined || !sameFingerprint(state, now);
    }
    if (how !== 'scan') return true;
    const collected = collectStates(context, [path]);
    // The file is open: its close is still to come.
    if (collected.kind === 'busy') return false;
    const state = collected.states.get(path);
    if (state === undefined) return true;
    // Not later: a rewrite within one tick of the file's times leaves the same state, and is a close of its own.
    this.#scanned.set(path, state);
    this.#options.drainEvents();
    this.#scanned.delete(path);
    return true;
  }

  #follow(planned: Plan, nowMs: number, busy: string | undefined): Look {
    const lacks = busy ?? 'more of it is still to be closed';
    switch (planned.kind) {
      case 'covered':
        return { kind: 'wait', forMs: undefined, lacks };
      case 'wait': {
        const forMs = (planned.untilMs ?? Infinity) - nowMs;
        const isSoon = busy === undefined && forMs <= AWAITED_MS;
        return {
          kind: 'wait',
          forMs: forMs < Infinity ? forMs : undefined,
          lacks: isSoon ? undefined : lacks,
        };
      }
      case 'cut': {
        const taken = this.#take(planned, nowMs);
        if (taken.kind === 'cut') this.#warnAfterLast();
        return taken.kind === 'busy' ? this.#retry(taken.why, nowMs) : taken;
      }
    }
  }

  #take({ proof, without }: Extract<Plan, { kind: 'cut' }>, nowMs: number): Look | Busy {
    const { context, drainEvents } = this.#options;
    const members = this.#membersWithout(without);
    // A file that an earlier attempt has left here is a member, too.
    const isOther = proof === 'single' && members.length > 1;
    if (members.length === 0 || isOther) return { kind: 'busy', why: undefined };
    const collected = collectStates(context, members);
    if (collected.kind === 'busy') {
      if (collected.unread !== undefined) this.#warnUnread(collected.unread);
      return collected;
    }
    const before = this.#state;
    drainEvents();
    // A close that was still queued belongs to these states: we saw more closes than we had counted.
    if (this.#state !== before) return { kind: 'wait', forMs: 0, lacks: undefined };
    const racy = members.length === 1 ? undefined : findRacy(context.root, collected.states);
    if (racy !== undefined && isOverdue(before, nowMs, this.#sendMs)) return busyWith(racy.path);
    if (racy !== undefined) return { kind: 'wait', forMs: racy.forMs, lacks: undefined };
    const worth = this.#worthWith(proof, members);
    this.#state = cutTaken(before, worth, nowMs);
    this.#busyLooks = 0;
    const isWhole = without.size === 0;
    return { kind: 'cut', states: collected.states, proof: worth, isWhole, before, atMs: nowMs };
  }

  /**
   * The proof that holds with these members. A file that is unchanged since a doubted set is not proven by other
   * closes.
   */
  #worthWith(proof: Proof, members: readonly RelPath[]): Proof {
    // The program itself knows what it has found.
    if (proof === 'said') return proof;
    const { files } = this.#options;
    const isDoubted = (path: RelPath): boolean =>
      this.#doubted.has(path) && files.get(path, 'checkpoint')?.inherited !== undefined;
    return members.some(isDoubted) ? 'instant' : proof;
  }

  #retry(why: string | undefined, nowMs: number): Look {
    if (why === undefined) return { kind: 'wait', forMs: undefined, lacks: 'no file of it is left' };
    const forMs = pauseAfter(BACK_OFF, this.#busyLooks);
    this.#busyLooks += 1;
    if (isOverdue(this.#state, nowMs, this.#sendMs))
      this.#tell(
        `${why} each time that one is due`,
        'close it after each checkpoint; what the task keeps open and appends to is for --companions',
      );
    return { kind: 'wait', forMs, lacks: why };
  }

  #membersWithout(units: ReadonlySet<string>): readonly RelPath[] {
    const { context, files } = this.#options;
    const chosen = membersAmong(context, files, this.#rotationOf, (unit) => units.has(unit));
    this.#warnAmbiguous(chosen.ambiguous);
    const unread = chosen.unknown.find(({ path }) => chosen.members.includes(path));
    if (unread !== undefined) this.#warnUnread(unread);
    return chosen.members;
  }

  /** Warns once that no set can be whole. */
  #warnUnread({ path, why }: Unread): void {
    if (this.#hasToldUnread) return;
    this.#hasToldUnread = true;
    this.#options.context.log.warn(`no checkpoint set is whole without ${showPath(path)}, and ${why}`, {
      hint: 'make it readable again, or remove it',
    });
  }

  #tell(why: string, hint: string): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const { log, now } = this.#options.context;
    const forMs = now() - (this.#state.staleSinceMs ?? now());
    log.warn(`the newest checkpoint is older than what was closed ${formatMs(forMs)} ago: ${why}`, { hint });
  }

  /** Warns once that `--newest` leaves nothing out, because it is unclear which files are older. */
  #warnAmbiguous(ambiguous: readonly Candidate[]): void {
    const [first] = ambiguous;
    const last = ambiguous.at(-1);
    if (this.#toldNewest || first === undefined || last === undefined) return;
    if (BigInt(last.mtimeNs) - BigInt(first.mtimeNs) < UNTOLD_NS) return;
    this.#toldNewest = true;
    const { log, settings } = this.#options.context;
    const pattern = settings.manifest.checkpoints[last.pattern] ?? '';
    log.warn(
      `--newest ${settings.manifest.newest} takes all of ${plural(ambiguous.length, 'name')} like ` +
        `${showPath(last.path)}: '${pattern}' matches several numbers in them, and nothing tells which one counts the checkpoints`,
      { hint: 'let the star stand for that number alone: ckpt_*.h5, not ckpt_*' },
    );
  }

  /** Warns once if a file is closed after the file of `--checkpoint-last`. */
  #warnAfterLast(): void {
    const { afterLast } = this.#state;
    if (this.#hasWarned || afterLast === undefined) return;
    this.#hasWarned = true;
    const { log, settings } = this.#options.context;
    log.warn(
      `${showPath(afterLast)} is closed after the file that --checkpoint-last '${settings.checkpointLast ?? ''}' ` +
        'names: the set that ends with that file is not whole',
      { hint: 'name the file that the program closes last' },
    );
  }
}

/** The restored set's files that come from marked sets, traced through all sets of an instant that were made since. */
function doubtedOf({ ledger, history }: CuttingContext): ReadonlySet<RelPath> {
  const named = (name: string | undefined): Generation | undefined =>
    ledger.generations.find((one) => generationName(one) === name);
  const restored = named(ledger.restored);
  const keys = new Set<string>();
  for (let one = restored; one !== undefined && !isGood(one);) {
    const { attempt, members } = one;
    if (!isProofOfLife(one)) for (const { key } of members) keys.add(key);
    const before = named(history.attempts.findLast((each) => each.attempt === attempt)?.restored);
    one = before !== undefined && before.attempt < attempt ? before : undefined;
  }
  return new Set((restored?.members ?? []).flatMap(({ path, key }) => (keys.has(key) ? [path] : [])));
}

/** Its mtime, ms since the epoch; undefined if it is gone, or its file system keeps only whole seconds. */
function writtenMsOf(root: WorkDir, path: RelPath): number | undefined {
  const ns = BigInt(factsBeneath(root, path)?.mtimeNs ?? 0);
  return ns % 1_000_000_000n === 0n ? undefined : Number(ns / 1000n) / 1000;
}

/** A file that could still change without any trace in its state, and for how long. */
function findRacy(
  root: WorkDir,
  states: ReadonlyMap<RelPath, FileFacts>,
): { readonly path: RelPath; readonly forMs: number } | undefined {
  for (const [path, facts] of states) {
    const ageInMs = ageMs(Number(BigInt(facts.ctimeNs) / 1_000_000n));
    // If a file server's clock is ahead of ours, we must not wait for it.
    if (ageInMs < 0) continue;
    const forMs = unseenForMs(facts, ageInMs, os.release(), () => typeBeneath(root, path) ?? 0);
    if (forMs > 0) return { path, forMs };
  }
  return undefined;
}

type Collected =
  /** One moment at which no member had a writer. */
  { readonly kind: 'cut'; readonly states: ReadonlyMap<RelPath, FileFacts> } | Busy;

/** No cut can be taken now. `why` is undefined if there are no members. */
interface Busy {
  readonly kind: 'busy';
  readonly why: string | undefined;
  readonly unread?: Unread;
}

function busyWith(path: RelPath): Busy {
  return { kind: 'busy', why: `${showPath(path)} is being written` };
}

interface Unread {
  readonly path: RelPath;
  readonly why: string;
}

type CutPlace = Needs<'root' | 'mounts'>;

/**
 * The states of all members at one moment. They are collected twice, and taken only if they are equal, so that every
 * state was valid at the instant in between. `busy`: a member has a writer, vanished, or cannot be read.
 */
export function collectStates(place: CutPlace, members: readonly RelPath[]): Collected {
  const first = collectOnce(place, members);
  if (first.kind === 'busy') return first;
  const second = collectOnce(place, members);
  if (second.kind === 'busy') return second;
  for (const [path, state] of first.states) {
    const again = second.states.get(path);
    if (again === undefined || !sameFingerprint(state, again)) return busyWith(path);
  }
  return second;
}

function collectOnce(place: CutPlace, members: readonly RelPath[]): Collected {
  const states = new Map<RelPath, FileFacts>();
  for (const path of members) {
    const state = stateOf(place, path);
    if (state === undefined) return busyWith(path);
    if ('why' in state)
      return { kind: 'busy', why: `${showPath(path)}: ${state.why}`, unread: { path, why: state.why } };
    states.set(path, state);
  }
  return { kind: 'cut', states };
}

/** The state of one member; undefined while it has a writer, or if it is gone. */
function stateOf(place: CutPlace, path: RelPath): FileFacts | Unknown | undefined {
  try {
    const fd = openBeneath(place.root, path);
    try {
      return writerState(fd) === 'writer' ? undefined : factsOf(fd);
    } finally {
      fs.closeSync(fd);
    }
  } catch (error) {
    const found = lookAt(place.root, path);
    if (found !== undefined) return found.link ? found.facts : { why: unreadable(error) };
    const there = presenceOf(place, path);
    return isUnknown(there) ? there : undefined;
  }
}

interface Members extends ChosenMembers {
  /** The files that nobody can look at, and why. */
  readonly unknown: readonly Unread[];
}

/**
 * The declared checkpoint files that exist, without those that `--newest` or `isLeftOut` leaves out. A file that nobody
 * can look at is one of them: then no set without it is whole.
 */
export function membersAmong(
  context: Pick<CuttingContext, 'root' | 'mounts' | 'manifest' | 'settings'>,
  files: Pick<Files, 'existing' | 'get'>,
  rotationOf: Rotates,
  isLeftOut: (unit: string) => boolean = () => false,
): Members {
  const { manifest, settings } = context;
  const candidates: Candidate[] = [];
  const unknown: Unread[] = [];
  for (const path of files.existing.paths()) {
    const rotation = rotationOf(path);
    if (isLeftOut(rotation?.unit ?? path)) continue;
    const there = presenceOf(context, path, files.existing.isGone(path));
    if (isUnknown(there)) unknown.push({ path, why: there.why });
    else files.existing.looked(path, there !== 'gone');
    if (there === 'gone') continue;
    const mtimeNs = isUnknown(there) ? lastWrittenNs(files.get(path, 'checkpoint')) : there.mtimeNs;
    candidates.push({ path, mtimeNs, pattern: manifest.matchIndex('checkpoints', path), rotation });
  }
  return { ...chooseMembers(candidates, settings.manifest.newest), unknown };
}

/** As far as it is known without a look at the file. */
function lastWrittenNs(fileState: FileState | undefined): string {
  const { inherited, lastClose } = fileState ?? {};
  return inherited?.mtimeNs ?? String(BigInt(Math.floor(lastClose?.atMs ?? 0)) * 1_000_000n);
}
