// What was last seen of each file, for scans that are made again and again: only what is new is told. Kept
// only where such scans run; with inotify on a local file system there is nothing to remember.
import type { Fingerprint } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';

export interface LastSeen {
  /** True unless this is the state that was noted last. */
  isNew(path: RelPath, facts: Fingerprint): boolean;
  note(path: RelPath, facts: Fingerprint): void;
  /** At the end of a walk: forgets the files that nobody asked about or noted since the last one. */
  forgetGone(): void;
}

export function openLastSeen(): LastSeen {
  const states = new Map<RelPath, string>();
  const there = new Set<RelPath>();
  return {
    isNew: (path, facts) => {
      there.add(path);
      return states.get(path) !== stateOf(facts);
    },
    note: (path, facts) => {
      there.add(path);
      states.set(path, stateOf(facts));
    },
    forgetGone: () => {
      for (const path of states.keys()) if (!there.has(path)) states.delete(path);
      there.clear();
    },
  };
}

/** One short string instead of five: there may be 200,000 of them. */
function stateOf(facts: Fingerprint): string {
  return [facts.dev, facts.ino, facts.size, facts.mtimeNs, facts.ctimeNs].join(' ');
}
