// A spool without room: said when a file falls back to being read while it is sent, for then it is stored only
// when it rests for so long. Once for each file, so that one rewritten every few seconds does not fill the log.
import type { Log } from '../../log/log.ts';
import type { Settings } from '../../model/format/settings.ts';
import { showPath, type RelPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';

export type SpoolFull = (path: RelPath) => void;

export function openSpoolFull(log: Log, { spoolLimitBytes }: Pick<Settings, 'spoolLimitBytes'>): SpoolFull {
  const said = new Set<RelPath>();
  return (path) => {
    if (said.has(path)) return;
    said.add(path);
    log.warn(
      `the spool has no room for ${showPath(path)}, which was rewritten while it was sent: ` +
        'it is read while it is sent again, and stored once it rests for so long',
      { hint: `--spool <dir> with more room, or a --spool-limit above ${formatBytes(spoolLimitBytes)}` },
    );
  };
}
