// An input that no record describes: what its object says of it, as far as that is to be believed.
import type { RelPath } from '../core/path.ts';
import type { ObjectHead } from '../store/store.ts';
import type { Source } from './source.ts';

/** Other programs write metadata of the same names: only what reads as ours is believed. */
export function sourceOf(path: RelPath, { key, sizeBytes, meta }: ObjectHead, compressed: boolean): Source {
  const matching = (name: string, pattern: RegExp): string | undefined => {
    const value = meta[name];
    return value !== undefined && pattern.test(value) ? value : undefined;
  };
  const size = matching('size', /^\d{1,15}$/);
  // A compressed object that was copied to a plain name: what is said of its content is not of these bytes.
  const isSaidOfThese = compressed || size === undefined || toNumber(size) === sizeBytes;
  const mode = matching('mode', /^[0-7]{1,4}$/);
  return {
    path,
    kind: meta['link'] === '1' ? 'link' : 'file',
    key,
    compressed,
    md5: isSaidOfThese ? matching('md5', /^[0-9a-f]{32}$/) : undefined,
    size: compressed ? toNumber(size) : sizeBytes,
    mtimeNs: matching('mtime', /^-?\d{1,20}$/),
    mode: mode === undefined ? undefined : Number.parseInt(mode, 8),
  };
}

function toNumber(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
