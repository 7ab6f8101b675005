// `capture gather --list`: lists what would be gathered, for programs, or for `md5sum -c` in the directory.
import { pathBytes, showJson, showPath } from '../../model/path.ts';
import type { Output } from '../../cli/output.ts';
import type { Share, StoredSource } from './share.ts';

export const LIST_FORMATS = ['json', 'md5sum'] as const;
export type ListFormat = (typeof LIST_FORMATS)[number];

/** Writes the files of each share as it arrives. */
export async function writeList(
  shares: AsyncIterable<Share>,
  format: ListFormat,
  out: Output,
): Promise<void> {
  let isFirst = true;
  if (format === 'json') await out.write('[');
  for await (const { index, files } of shares) {
    for (const file of files) {
      if (format === 'md5sum') await out.passOn(md5sumLine(file));
      else await out.write(`${isFirst ? '' : ','}\n${jsonOf(index, file)}`);
      isFirst = false;
    }
  }
  if (format === 'json') await out.write('\n]\n');
}

function jsonOf(index: string, { path, key, size, md5, kind }: StoredSource): string {
  return showJson({ index, name: showPath(path), size, md5, kind, key });
}

/**
 * The format of coreutils: a backslash or line feed in the name is escaped, and the line then starts with a backslash.
 */
export function md5sumLine({ path, md5 }: Pick<StoredSource, 'path' | 'md5'>): Uint8Array {
  const escaped = path.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\r', '\\r');
  const mark = escaped === path ? '' : '\\';
  return Buffer.concat([Buffer.from(`${mark}${md5}  `), pathBytes(escaped), Buffer.from('\n')]);
}
