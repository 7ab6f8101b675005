// The workers that read for a run, alone or with other runs: the path of their program, their spool, the warning if it
// is full, and loading them early.
import fs from 'node:fs';
import os from 'node:os';
import type { Log } from '../../log/log.ts';
import { reasonOf } from '../../model/errors.ts';
import type { Settings } from '../../model/format/settings.ts';
import { encodePath, type RelPath, showPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';
import { NO_ZSTD_HINT } from '../../native/zstd.ts';
import { openPool, type Pool } from '../../read/workers.ts';
import type { Needs } from '../run/context.ts';

export function openRunPool(settings: Settings, log: Log, isShared: boolean): Pool {
  return openPool({
    count: settings.workers,
    isShared,
    // Beside this module in the bundle (build.mjs).
    entry: new URL('./worker.cjs', import.meta.url),
    spoolDir: spoolDirOf(settings, log),
    spoolLimitBytes: settings.spoolLimitBytes,
  });
}

/** zstd takes a while to load, and the first closed file should not wait for it. */
export function warmUpWorkers({ sender, settings, log }: Needs<'sender' | 'settings' | 'log'>): void {
  const said = (name: string): void => {
    if (name !== 'none' || settings.compression.kind === 'none') return;
    log.warn('no zstd here: files are stored uncompressed', { hint: NO_ZSTD_HINT });
  };
  void sender.workers.compressor().then(said);
}

/** `--spool`, else the directory for temporary files. A run continues without a spool. */
export function spoolDirOf({ spoolDir }: Pick<Settings, 'spoolDir'>, log: Log): string {
  const dir = spoolDir ?? os.tmpdir();
  const problem = problemOf(dir);
  if (problem !== undefined) {
    const source = spoolDir === undefined ? '' : ' (--spool)';
    log.warn(
      `cannot write in ${showPath(dir)}${source}: ${problem}: a file that is rewritten while it is sent is stored only once it rests`,
      { hint: '--spool <dir>, or TMPDIR; in a container mount a volume there' },
    );
  }
  return dir;
}

/** access(2) detects a read-only file system, too. */
function problemOf(dir: string): string | undefined {
  try {
    if (!fs.statSync(encodePath(dir)).isDirectory()) return 'it is not a directory';
    fs.accessSync(encodePath(dir), fs.constants.W_OK | fs.constants.X_OK);
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

export type SpoolFull = (path: RelPath, sizeBytes: number) => void;

export function spoolWarner(log: Log, { spoolLimitBytes }: Pick<Settings, 'spoolLimitBytes'>): SpoolFull {
  const said = new Set<RelPath>();
  return (path, sizeBytes) => {
    if (said.has(path)) return;
    said.add(path);
    const isOverLimit = sizeBytes > spoolLimitBytes;
    log.warn(
      `the spool has no room for ${showPath(path)} (${formatBytes(sizeBytes)}), which was rewritten while it was sent: ` +
        'it is read while it is sent again, and stored once it rests for so long',
      {
        hint: isOverLimit
          ? `--spool-limit: it is ${formatBytes(spoolLimitBytes)}; more than the size of the file is needed`
          : '--spool <dir> with more room',
      },
    );
  };
}
