// An input that no record describes: what its object says of it, as far as that is to be believed.
import type { RelPath } from '../model/path.ts';
import type { ObjectHead } from '../store/contract/store.ts';
import type { Source } from './source.ts';

/** Other programs write metadata of the same names: only what reads as ours is believed. */
export function sourceOf(path: RelPath, head: ObjectHead, compressed: boolean): Source {
  const { key, sizeBytes, meta, modifiedMs } = head;
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
    // Another program's is in another unit.
    mtimeNs: (meta['capture'] && matching('mtime', /^-?\d{1,20}$/)) || nanoseconds(modifiedMs),
    mode: mode === undefined ? undefined : Number.parseInt(mode, 8),
  };
}

/** A file as new as its download would be newer than all that make and its like have made of it. */
function nanoseconds(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : String(BigInt(Math.round(ms)) * 1_000_000n);
}

function toNumber(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
