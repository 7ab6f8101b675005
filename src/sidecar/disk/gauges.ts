// What a run says of itself without being asked: how far it is, and that space runs out. Learns of files only by what
// it is told, and changes nothing.
import { newestOf } from '../../model/checkpoint/history.ts';
import type { FileState } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import { heldPath, type WorkDir } from '../../native/beneath.ts';
import type { Results } from '../queue/results.ts';
import type { Needs } from '../run/context.ts';
import { statMember } from '../run/local-file.ts';
import { Lag } from './lag.ts';
import { LowSpace } from './low-space.ts';
import { openMinuteLine } from './minute-line.ts';

/** What it takes of the run. */
type Uses = Needs<'settings' | 'root' | 'log' | 'attempt' | 'ledger' | 'paths' | 'now'>;

export interface Gauges {
  /** Call it with every change of a file state, and the state before it. */
  changed(fileState: FileState, before: FileState): void;
  /** A result was stored. */
  stored(): void;
  /** A set of checkpoint files was committed. */
  committed(): void;
  close(): void;
}

export function openGauges(context: Uses, results: Results): Gauges {
  const { root, settings, log, now, paths, ledger, attempt } = context;
  const lag = new Lag(now, paths);
  let checkpoints = newestOf(ledger.generations, attempt);
  const minute = openMinuteLine(log, () => {
    const { stored } = results;
    const newest = ledger.generations.find((generation) => generation.attempt === attempt);
    return {
      checkpoints,
      newestAgeMs: newest === undefined ? 0 : now() - Date.parse(newest.at),
      results: stored.files,
      bytes: stored.bytes,
      lag: lag.oldest(),
    };
  });
  const lowSpace = new LowSpace({
    dir: heldPath(root),
    reclaim: settings.reclaim,
    log,
    held: () => ({
      storedBytes: results.copies.bytes,
      waitingBytes: sizeOf(root, lag.paths()),
    }),
  });
  return {
    changed: (fileState, before) => {
      if (lag.changed(fileState)) minute.changed();
      if (fileState.closes > before.closes || (before.pushing && !fileState.pushing)) lowSpace.changed();
    },
    stored: () => minute.changed(),
    committed: () => {
      checkpoints += 1;
      minute.changed();
    },
    close: () => {
      minute.close();
      lowSpace.close();
    },
  };
}

/** Bytes of the files that are there. */
function sizeOf(root: WorkDir, paths: Iterable<RelPath>): number {
  let bytes = 0;
  for (const path of paths) bytes += statMember(root, path)?.size ?? 0;
  return bytes;
}
