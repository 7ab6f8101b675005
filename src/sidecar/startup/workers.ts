// The workers of this run: where their program is, where they spool, and that they are loaded early.
import type { Log } from '../../log/log.ts';
import type { Settings } from '../../model/format/settings.ts';
import type { WorkDir } from '../../native/work-dir.ts';
import { NO_ZSTD_HINT } from '../../native/zstd.ts';
import { openLanes, type Workers } from '../../read/workers.ts';
import { spoolDirOf } from '../disk/spool-dir.ts';
import type { Context } from '../run/context.ts';

export function openSnapshotLanes(settings: Settings, root: WorkDir, log: Log): Workers {
  return openLanes({
    root,
    count: settings.workers,
    // In the bundle its threads are workers (sidecar-entry.ts, build.mjs).
    entry: new URL('./sidecar.mjs', import.meta.url),
    spoolDir: spoolDirOf(settings, log),
    spoolLimitBytes: settings.spoolLimitBytes,
  });
}

/** The first worker takes a while to load: not while the first closed file waits for it. */
export function warmUpLanes({ workers, settings, log }: Pick<Context, 'workers' | 'settings' | 'log'>): void {
  const said = (name: string): void => {
    if (name !== 'none' || settings.compression.kind === 'none') return;
    log.warn('no zstd here: files are stored uncompressed', { hint: NO_ZSTD_HINT });
  };
  // A worker that cannot start says so to the first file that needs it; here the run may just be over.
  workers.compressor().then(said, () => undefined);
}
