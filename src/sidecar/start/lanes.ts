// The lanes of this run: where their program is, and where they spool.
import os from 'node:os';
import type { Settings } from '../../core/settings.ts';
import { openLanes, type Lanes } from '../../push/lanes.ts';
import type { Root } from '../context.ts';

export function openSnapshotLanes(settings: Settings, root: Root): Lanes {
  return openLanes({
    root,
    count: settings.lanes,
    entry: new URL('./lane.mjs', import.meta.url),
    spoolDir: settings.spoolDir ?? os.tmpdir(),
    spoolLimitBytes: settings.spoolLimitBytes,
  });
}
