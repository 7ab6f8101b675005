// Which close has made a content: the last reported one, unless the file was changed after it. Files have the time of
// day, and closes the clock of the run: the two differ if the time of day was set since.
import type { Close } from '../../model/file/file-state.ts';
import { closeOfContent, isAfter } from '../../model/file/suspect.ts';
import { fileAgeMs } from '../../native/network-files.ts';
import type { Needs } from './context.ts';

type ClockContext = Needs<'root' | 'now'>;

export function contentClose(
  { root, now }: ClockContext,
  lastClose: Close | undefined,
  { mtimeNs }: { readonly mtimeNs: string },
): Close | undefined {
  const ageMs = fileAgeMs(root, mtimeNs) ?? Infinity;
  // Not earlier: a delay between the two readings must never make a change older than it is.
  const nowMs = now();
  return closeOfContent(lastClose, nowMs - ageMs, nowMs);
}

/** True if the inode was changed after the close. On a network file system its server's clock counts. */
export function isChangedAfter(
  { root, now }: ClockContext,
  close: Close,
  { ctimeNs }: { readonly ctimeNs: string },
): boolean {
  const ageMs = fileAgeMs(root, ctimeNs) ?? now() - Number(BigInt(ctimeNs) / 1_000_000n);
  return isAfter(now() - ageMs, close);
}
