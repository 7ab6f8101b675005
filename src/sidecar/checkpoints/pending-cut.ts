// One cut until its commit: the states of all members at one moment, the objects that hold exactly these states, and
// the companions from that moment on. Never takes another state for one that it waits for.
import { sameFingerprint } from '../../model/file/file-state.ts';
import type { Companion, StoredFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import type { Files } from '../queue/files.ts';
import type { Needs } from '../run/context.ts';
import { statMember } from '../run/local-file.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Capture, Companions } from './companions.ts';
import type { TakenCut } from './cutting.ts';

/** What cuts, commits and captures take of the run. */
type Uses = Needs<
  | 'settings'
  | 'manifest'
  | 'root'
  | 'log'
  | 'attempt'
  | 'resumed'
  | 'ledger'
  | 'tidy'
  | 'lacking'
  | 'signal'
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
export interface WholeCut {
  readonly kind: 'whole';
  readonly members: readonly StoredFile[];
  readonly companions: readonly Companion[];
}

export type CutProgress =
  | WholeCut
  | { readonly kind: 'waiting' }
  /** A state was overwritten before it was read. */
  | { readonly kind: 'lost'; readonly path: RelPath }
  | { readonly kind: 'failed'; readonly error: unknown };

export class PendingCut {
  readonly #parts: CutParts;
  /** An object that was found stays found, even if the task has gone on to the next state. */
  readonly #objects = new Map<RelPath, StoredFile>();
  #capture: Capture | { readonly kind: 'waiting' } | { readonly kind: 'failed'; readonly error: unknown };

  readonly taken: TakenCut;
  /** How many closes it covers. */
  readonly closes: number;

  /** Calls `onCaptured` once the companions are stored or cannot be. */
  constructor(parts: CutParts, taken: TakenCut, closes: number, onCaptured: () => void) {
    this.#parts = parts;
    this.taken = taken;
    this.closes = closes;
    const { companions, context } = parts;
    const areDue = companions.areDue;
    this.#capture = areDue ? { kind: 'waiting' } : { kind: 'captured', companions: [] };
    if (!areDue) return;
    companions
      .capture({ atCheckpoint: true }, context.signal)
      .catch((error: unknown) => ({ kind: 'failed' as const, error }))
      .then((capture) => {
        this.#capture = capture;
        onCaptured();
      })
      .catch((error: unknown) => context.log.error('a checkpoint could not go on', { err: error }));
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
    const lost = this.#findLost();
    if (lost !== undefined) return { kind: 'lost', path: lost };
    if (capture.kind === 'waiting' || this.#objects.size < this.taken.states.size) return { kind: 'waiting' };
    return { kind: 'whole', members: [...this.#objects.values()], companions: capture.companions };
  }

  /** Takes the objects that are there by now, and asks for those that nobody is sending. */
  #findLost(): RelPath | undefined {
    const { checkpoints, files, context } = this.#parts;
    for (const [path, state] of this.taken.states) {
      if (this.#objects.has(path)) continue;
      const object = checkpoints.objectOf(path, state);
      if (object !== undefined) {
        this.#objects.set(path, object);
        continue;
      }
      // What is being sent may be this very state, read before the task went on.
      if (files.get(path, 'checkpoint')?.pushing === true) continue;
      const now = statMember(context.root, path);
      if (now === undefined || !sameFingerprint(now, state) || !files.want(path, 'checkpoint')) return path;
    }
    return undefined;
  }
}
