// Notices that the machine goes, or may go. The notice sources are polled once, here. All tasks read the notice from
// one file in the scratch directory (notices/file.ts), with the announced time unchanged.
import fs from 'node:fs';
import path from 'node:path';
import type { Log } from '../log/log.ts';
import { type Notice, sameNotice } from '../model/format/notice.ts';
import type { NoticeSettings } from '../model/format/settings.ts';
import { ADVICE } from '../notices/file.ts';
import { replacePrivateFile } from '../native/private-dir.ts';
import { openNotices } from '../notices/notices.ts';

export interface SharedNotice {
  /** A signal of --notice-on has arrived. */
  signalled(signal: string): void;
  close(): void;
}

/** The option with which each run reads this file. */
export function noticeOption(dir: string): string {
  return `--notice=file:${fileIn(dir)}`;
}

function fileIn(dir: string): string {
  return path.join(dir, 'notice');
}

/** `changed` is called when a notice appears, and when none is left. Advice ends nothing, so only the tasks see it. */
export function openSharedNotice(
  { sources }: NoticeSettings,
  dir: string,
  { log, changed }: { readonly log: Log; readonly changed: (stands: boolean) => void },
): SharedNotice {
  const file = fileIn(dir);
  let standing: readonly Notice[] = [];
  let shown: string | undefined;
  const stands = (): boolean => standing.some(({ kind }) => kind === 'stop');
  const now = (notices: readonly Notice[]): void => {
    const stood = stands();
    standing = notices;
    const text = textOf(standing);
    if (text !== shown) show(file, text);
    shown = text;
    if (stands() !== stood) changed(stands());
  };
  const tell = (notice: Notice): void => {
    const then =
      notice.kind === 'stop' ? 'ends, and goes on when this is run again' : 'makes safe what is closed';
    log.warn(`${notice.what}: every task ${then}`, { event: 'notice', source: notice.source });
    now([...standing, notice]);
  };
  const notices = openNotices({
    choices: sources.length === 0 ? [{ kind: 'none' }] : sources,
    env: process.env,
    log,
    onNotice: tell,
    onWithdrawn: (notice) => {
      log.info(`taken back: ${notice.what}`, { event: 'notice-withdrawn', source: notice.source });
      now(standing.filter((one) => !sameNotice(one, notice)));
    },
  });
  return {
    signalled: (signal) =>
      tell({
        source: signal,
        kind: 'stop',
        atMs: undefined,
        what: `${signal} says that we are stopped soon`,
      }),
    close: () => notices.close(),
  };
}

/** The newest notice wins, and any notice wins over advice. */
function textOf(standing: readonly Notice[]): string | undefined {
  const stop = standing.findLast(({ kind }) => kind === 'stop');
  if (stop !== undefined) return stop.atMs === undefined ? '' : new Date(stop.atMs).toISOString();
  return standing.length === 0 ? undefined : ADVICE;
}

/** Writes the file atomically: readers see all of it or nothing. */
function show(file: string, text: string | undefined): void {
  if (text === undefined) return fs.rmSync(file, { force: true });
  replacePrivateFile(path.dirname(file), path.basename(file), text);
}
