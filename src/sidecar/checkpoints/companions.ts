// Captures companions while the task holds them open: finds them, sends what was written since the last time, and
// remembers which segments hold which file. Never waits for a close, and never reads beyond the size that it has seen.
import pLimit from 'p-limit';
import { type CapturedCompanion, planSegments, type SegmentPlan } from '../../model/checkpoint/companions.ts';
import { compileManifest } from '../../model/file/manifest.ts';
import { parseSegmentKey, segmentKey } from '../../model/format/keys.ts';
import type { Companion, Generation, Segment } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { type SegmentSent, sendSegment } from '../../upload/send.ts';
import { findAll, type FoundFile, type Walk } from '../../watch/scan.ts';
import type { Needs } from '../run/context.ts';
import { isUnknown, presenceOf } from '../run/presence.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { OpenResults } from './open-results.ts';

type CompanionsContext = Needs<
  'settings' | 'scope' | 'manifest' | 'root' | 'mounts' | 'log' | 'attempt' | 'ledger' | 'sender'
>;

/** Companions that are read at once. A checkpoint waits for all of them, but they must not hold up results. */
const PARALLEL = 2;

export type Capture =
  | {
      readonly kind: 'captured';
      readonly companions: readonly Companion[];
      /** False if one cannot be read, or nobody can tell whether it is still there. The user knows. */
      readonly isWhole: boolean;
    }
  /** A file was truncated or replaced between our look and our read: look again. */
  | { readonly kind: 'moved'; readonly path: RelPath };

export interface Moment {
  readonly atCheckpoint: boolean;
  readonly ended?: boolean;
}

export class Companions {
  readonly #context: CompanionsContext;
  readonly #walk: Walk;
  readonly #openResults: Pick<OpenResults, 'look'>;
  readonly #captured = new Map<RelPath, CapturedCompanion>();
  /** The segments of this attempt that may be in the store and are not being sent. */
  readonly #objects = new Set<string>();
  /** By path, the highest segment number of this attempt. */
  readonly #numbers = new Map<RelPath, number>();
  readonly #refused = new Set<RelPath>();
  readonly #checkpoints: Pick<Checkpoints, 'number'>;
  readonly #inTurn = pLimit(1);
  /** Bytes of segments: of companions that the user declared, and of results that were open. */
  readonly bytesStored = { declared: 0, results: 0 };
  /** Every companion that was ever seen; undefined until the first look. */
  seen: Set<RelPath> | undefined;

  /** `before`: the generation whose companions are in the work directory. */
  constructor(
    context: CompanionsContext,
    before: Generation | undefined,
    openResults: Pick<OpenResults, 'look'>,
    checkpoints: Pick<Checkpoints, 'number'>,
  ) {
    this.#context = context;
    this.#openResults = openResults;
    this.#walk = walkOf(context);
    this.#checkpoints = checkpoints;
    for (const companion of before?.companions ?? [])
      this.#captured.set(companion.path, { companion, source: undefined });
    const own = context.ledger.generations.flatMap(({ companions }) => companions);
    for (const { path, segments } of own) for (const { key } of segments) this.#noteNumber(path, key);
  }

  get areDeclared(): boolean {
    return this.#context.settings.manifest.companions.length > 0;
  }

  /** True if there is something to capture: declared companions, or open results that are only appended to. */
  get areDue(): boolean {
    return this.areDeclared || this.#openResults.look(false).length > 0;
  }

  /** True if no checkpoint is declared, so that a resume needs nothing but companions. */
  get areWholeSet(): boolean {
    return this.areDeclared && this.#context.settings.manifest.checkpoints.length === 0;
  }

  /** Every companion that was captured or looked for. */
  get known(): ReadonlySet<RelPath> {
    return new Set([...this.#captured.keys(), ...(this.seen ?? [])]);
  }

  /** The companions as they are stored now, ordered by path. */
  get current(): readonly Companion[] {
    return [...this.#captured.values()]
      .map(({ companion }) => companion)
      .toSorted((a, b) => (a.path < b.path ? -1 : 1));
  }

  /**
   * Stores at least what all companions hold now. `atCheckpoint`: the task has closed a checkpoint, so it has already
   * truncated its files to where it resumed, and only appends from here on. `ended`: results that were open may have
   * been closed for a dying process. Throws the store's errors.
   */
  capture(moment: Moment, signal: AbortSignal): Promise<Capture> {
    return this.#inTurn(() => this.#capture(moment, signal));
  }

  /** Segments of this attempt that neither `alive` nor the next capture needs. The caller deletes them. */
  garbage(alive: ReadonlySet<string>): readonly string[] {
    return [...this.#objects].filter((key) => !alive.has(key) && !this.isCurrent(key));
  }

  isCurrent(key: string): boolean {
    return this.current.some(({ segments }) => segments.some((segment) => segment.key === key));
  }

  forget(keys: readonly string[]): void {
    for (const key of keys) this.#objects.delete(key);
  }

  async #capture({ atCheckpoint, ended = false }: Moment, signal: AbortSignal): Promise<Capture> {
    const declared = this.areDeclared ? await findAll(this.#walk, 'pool', signal) : [];
    const found: readonly FoundFile[] = [...declared, ...this.#openResults.look(ended)];
    const here = new Set(found.map(({ path }) => path));
    this.seen = new Set([...(this.seen ?? []), ...here]);
    const isAllSeen = this.#forgetGone(here);
    const limit = pLimit(PARALLEL);
    const outcomes = await Promise.allSettled(
      found.map((file) => limit(() => this.#captureOne(file, atCheckpoint, signal))),
    );
    for (const one of outcomes) if (one.status === 'rejected') throw one.reason;
    const hows = outcomes.map((one) => (one.status === 'fulfilled' ? one.value : 'stored'));
    const moved = found[hows.indexOf('moved')];
    if (moved !== undefined) return { kind: 'moved', path: moved.path };
    return { kind: 'captured', companions: this.current, isWhole: isAllSeen && !hows.includes('unread') };
  }

  /** False if nobody can tell of one whether it is gone: what was stored of it remains. */
  #forgetGone(here: ReadonlySet<RelPath>): boolean {
    let isAllSeen = true;
    for (const path of this.#captured.keys()) {
      if (here.has(path)) continue;
      const there = presenceOf(this.#context, path);
      if (!isUnknown(there)) this.#captured.delete(path);
      else if (this.#refuse(path, there.why) === 'unread') isAllSeen = false;
    }
    return isAllSeen;
  }

  /** `moved`: the file was truncated or replaced. */
  async #captureOne(
    found: FoundFile,
    atCheckpoint: boolean,
    signal: AbortSignal,
  ): Promise<'stored' | 'moved' | 'unread'> {
    const { path, facts } = found;
    const before = this.#captured.get(path);
    const plan = planSegments(before, facts);
    if (plan === undefined) {
      if (before !== undefined) {
        const { segments } = before.companion;
        this.#captured.set(path, { ...before, companion: this.#companionOf(found, segments) });
      }
      return 'stored';
    }
    const named: string[] = [];
    const keyOf = (compressed: boolean): string => {
      const key = this.#newKey(path, compressed);
      named.push(key);
      return key;
    };
    const file = { dev: facts.dev, ino: facts.ino };
    try {
      const sent = await sendSegment(this.#context.sender, { path, file, ...plan, keyOf }, signal);
      if (sent.kind === 'stored') this.#note(found, plan, sent, atCheckpoint);
      return sent.kind === 'refused' ? this.#refuse(path, sent.why) : sent.kind;
    } finally {
      // Not earlier: a segment that is still being sent must not count as garbage.
      for (const key of named) this.#objects.add(key);
    }
  }

  #note(
    found: FoundFile,
    plan: SegmentPlan,
    { first, segment, tail }: Extract<SegmentSent, { kind: 'stored' }>,
    atCheckpoint: boolean,
  ): void {
    const known = plan.known.filter((before) => before.first + before.size <= first);
    const segments = segment === undefined ? known : [...known, segment];
    const companion = this.#companionOf(found, segments);
    this.bytesStored[companion.result === true ? 'results' : 'declared'] += segment?.size ?? 0;
    this.#captured.set(found.path, {
      companion,
      // Before its first checkpoint, a resumed task may still truncate the file.
      source: { fingerprint: found.facts, tail: atCheckpoint ? tail : undefined },
    });
  }

  #companionOf({ path, facts }: FoundFile, segments: readonly Segment[]): Companion {
    const companion = { path, size: facts.size, mode: facts.mode, segments: [...segments] };
    return this.#context.manifest.rolesOf(path).companion ? companion : { ...companion, result: true };
  }

  #newKey(path: RelPath, compressed: boolean): string {
    const { scope, attempt } = this.#context;
    const segment = (this.#numbers.get(path) ?? 0) + 1;
    this.#numbers.set(path, segment);
    return segmentKey(path, scope, { attempt, generation: this.#checkpoints.number, segment }, compressed);
  }

  #noteNumber(path: RelPath, key: string): void {
    const at = parseSegmentKey(key);
    if (at?.attempt !== this.#context.attempt) return;
    this.#numbers.set(path, Math.max(at.segment, this.#numbers.get(path) ?? 0));
    this.#objects.add(key);
  }

  /** Warns once about each file. What was stored of it before remains. */
  #refuse(path: RelPath, why: string): 'stored' | 'unread' {
    const isDeclared = this.#context.manifest.rolesOf(path).companion;
    if (!this.#refused.has(path)) {
      this.#refused.add(path);
      const what = isDeclared ? 'companion' : 'open result';
      const sets = isDeclared ? ', and checkpoint sets that lack its end are marked incomplete' : '';
      this.#context.log.warn(`${what} ${showPath(path)} is not stored: ${why}${sets}`);
    }
    // A record names what of the results a set lacks.
    return isDeclared ? 'unread' : 'stored';
  }
}

/** Walks only where companions can be, and not through all results. */
function walkOf({ settings, manifest, root, log }: CompanionsContext): Walk {
  const companions = compileManifest({ ...settings.manifest, results: [], checkpoints: [], inputs: [] });
  return {
    root,
    interest: {
      wants: (path) => manifest.rolesOf(path).companion,
      canHold: (dir) => companions.canHold(dir) && manifest.canHold(dir),
    },
    onUnreadable: (dir) => log.warn(`cannot read ${showPath(dir)}: companions in it are not stored`),
  };
}
