// The machine is taken away: the notice sources are asked once, here, and every task hears what they say from one file in
// the scratch directory (notices/file.ts), with the instant as it was told.
import fs from 'node:fs';
import path from 'node:path';
import type { Log } from '../log/log.ts';
import type { NoticeSettings } from '../model/format/settings.ts';
import { openNotices } from '../notices/notices.ts';

export interface SharedNotice {
  /** What each run is told to listen to. */
  readonly option: string;
  /** A signal that is a notice. */
  tell(what: string, atMs?: number): void;
  close(): void;
}

/** `changed`: a notice stands from now on, or none does any more. */
export function openSharedNotice(
  { sources }: NoticeSettings,
  dir: string,
  { log, changed }: { readonly log: Log; readonly changed: (stands: boolean) => void },
): SharedNotice {
  const file = path.join(dir, 'notice');
  const tell = (what: string, atMs?: number): void => {
    log.warn(`${what}: every task ends, and goes on when this is run again`, { event: 'notice' });
    // What is told is whole from its first byte on.
    fs.writeFileSync(`${file}.new`, atMs === undefined ? '' : new Date(atMs).toISOString());
    fs.renameSync(`${file}.new`, file);
    changed(true);
  };
  const notices = openNotices({
    choices: sources.length === 0 ? [{ kind: 'none' }] : sources,
    env: process.env,
    log,
    onNotice: ({ kind, what, atMs }) => {
      if (kind === 'stop') tell(what, atMs);
      else log.info(`${what}: nothing is certain yet`);
    },
    onWithdrawn: ({ kind, what }) => {
      if (kind !== 'stop') return;
      log.info(`no longer: ${what}`, { event: 'notice-withdrawn' });
      fs.rmSync(file, { force: true });
      changed(false);
    },
  });
  return { option: `--notice=file:${file}`, tell, close: () => notices.close() };
}
