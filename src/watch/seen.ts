// What was last seen of each file, for scans that are made again and again: only what is new is told. Kept
// only where such scans run; with inotify on a local file system there is nothing to remember.
import type { Fingerprint } from '../core/fingerprint.ts';
import type { RelPath } from '../core/path.ts';

export interface Seen {
  /** True unless this is the state that was noted last. */
  isNew(path: RelPath, facts: Fingerprint): boolean;
  note(path: RelPath, facts: Fingerprint): void;
  /** Forgets the paths that `keep` does not hold. */
  retain(keep: ReadonlySet<RelPath>): void;
}

export function openSeen(): Seen {
  const states = new Map<RelPath, string>();
  return {
    isNew: (path, facts) => states.get(path) !== stateOf(facts),
    note: (path, facts) => void states.set(path, stateOf(facts)),
    retain: (keep) => {
      for (const path of states.keys()) if (!keep.has(path)) states.delete(path);
    },
  };
}

/** One short string instead of five: there may be 200,000 of them. */
function stateOf(facts: Fingerprint): string {
  return [facts.dev, facts.ino, facts.size, facts.mtimeNs, facts.ctimeNs].join(' ');
}
