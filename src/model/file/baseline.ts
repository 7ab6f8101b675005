// What is known to be stored of a file, and whether a reading shows the same: then nothing is sent.
import type { FileFacts } from './file-state.ts';

/**
 * A link has the md5 of its target, and the mode belongs to what is stored: other users may read an object by the mode
 * of its file.
 */
export interface Baseline {
  readonly kind: 'file' | 'link';
  readonly md5: string;
  readonly size: number;
  readonly mode: number;
}

/** True if this reading of a regular file shows what is stored already. */
export function isStoredAs(
  baseline: Baseline | undefined,
  facts: Pick<FileFacts, 'size' | 'mode'>,
  md5: string,
): boolean {
  return mayBeStoredAs(baseline, facts) && baseline?.md5 === md5;
}

/** As {@link isStoredAs}, before the content is read: false if it cannot be the same. */
export function mayBeStoredAs(
  baseline: Baseline | undefined,
  { size, mode }: Pick<FileFacts, 'size' | 'mode'>,
): boolean {
  return baseline?.kind === 'file' && baseline.size === size && baseline.mode === mode;
}
