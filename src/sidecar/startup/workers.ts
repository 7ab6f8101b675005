// The lanes of this run: where their program is, where they spool, and that they are loaded early.
import type { Settings } from '../../model/format/settings.ts';
import { openLanes, type Lanes } from '../../read/workers.ts';
import type { Log } from '../../log/log.ts';
import { NO_ZSTD_HINT } from '../../native/zstd.ts';
import { spoolDirOf } from '../disk/spool-dir.ts';
import type { Context, Root } from '../run/context.ts';

export function openSnapshotLanes(settings: Settings, root: Root, log: Log): Lanes {
  return openLanes({
    root,
    count: settings.lanes,
    // In the bundle its threads are lanes (sidecar-entry.ts, build.mjs).
    entry: new URL('./sidecar.mjs', import.meta.url),
    spoolDir: spoolDirOf(settings, log),
    spoolLimitBytes: settings.spoolLimitBytes,
  });
}

/** The first lane takes a while to load: not while the first closed file waits for it. */
export function warmUpLanes({ lanes, settings, log }: Pick<Context, 'lanes' | 'settings' | 'log'>): void {
  const said = (name: string): void => {
    if (name !== 'none' || settings.compression.kind === 'none') return;
    log.warn('no zstd here: files are stored uncompressed', { hint: NO_ZSTD_HINT });
  };
  // A lane that cannot start says so to the first file that needs it; here the run may just be over.
  lanes.compressor().then(said, () => undefined);
}
