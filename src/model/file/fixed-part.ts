// The part of a pattern before its first wildcard: a listing of the store can be narrowed to this and no further.
import picomatch from 'picomatch';

/** `data/*.csv` → `data/`, `data/` → `data/`, `*.csv` → ``. */
export function fixedPart(pattern: string): string {
  const { base, isGlob } = picomatch.scan(pattern);
  if (!isGlob) return pattern.endsWith('/') ? pattern : `${pattern}/`;
  return base === '' || base === '.' ? '' : `${base}/`;
}
