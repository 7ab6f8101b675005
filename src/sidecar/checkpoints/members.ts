// The members of a checkpoint set, looked at directly: which exist, and all their states at one moment.
import fs from 'node:fs';
import { type Candidate, chooseMembers } from '../../model/checkpoint/members.ts';
import type { Rotates } from '../../model/checkpoint/rotation.ts';
import { type ClosedHow, type FileFacts, sameFingerprint } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import { lstatBeneath, type WorkDir } from '../../native/beneath.ts';
import { factsOf, fileFacts, openBeneath, writerState } from '../../native/files.ts';
import type { Standing } from '../queue/standing.ts';
import type { Needs } from '../run/context.ts';
import { statMember } from '../run/local-file.ts';

/** What it takes of the run. */
type Uses = Needs<'settings' | 'manifest' | 'root'>;

export type Collected =
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
  standing: Standing,
  rotationOf: Rotates,
  isLeftOut: (unit: string) => boolean = () => false,
): readonly RelPath[] {
  const candidates: Candidate[] = [];
  for (const path of standing.paths()) {
    const unit = rotationOf(path)?.unit ?? path;
    if (isLeftOut(unit)) continue;
    const facts = statMember(root, path);
    standing.looked(path, facts !== undefined);
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

/** Asked once for each close, in their order. */
export function openCounted(root: WorkDir): (path: RelPath, how: ClosedHow) => boolean {
  /** States that a scan has told: their close event may come after it. */
  const scanned = new Map<RelPath, FileFacts>();
  return (path, how) => {
    if (how === 'close') {
      const state = scanned.get(path);
      scanned.delete(path);
      const now = state === undefined ? undefined : statMember(root, path);
      return state === undefined || now === undefined || !sameFingerprint(state, now);
    }
    const collected = collectStates(root, [path]);
    if (collected.kind === 'busy') return false;
    const state = collected.states.get(path);
    if (how === 'scan' && state !== undefined) scanned.set(path, state);
    return true;
  };
}
