// Which close a content is of: the last that we heard of, unless the file was changed after it.
import type { Close } from '../../model/file/file-state.ts';
import { closeOfContent } from '../../model/file/suspect.ts';
import { fileAgeMs } from '../../native/network-files.ts';
import type { Needs } from './context.ts';

export function contentClose(
  { root, now }: Needs<'root' | 'now'>,
  lastClose: Close | undefined,
  { mtimeNs }: { readonly mtimeNs: string },
): Close | undefined {
  const nowMs = now();
  return closeOfContent(lastClose, nowMs - (fileAgeMs(root, mtimeNs) ?? Infinity), nowMs);
}
