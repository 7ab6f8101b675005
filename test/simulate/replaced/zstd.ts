// Replaces src/native/zstd.ts: there is no zstd, so objects hold contents as they are.
export const NO_ZSTD_HINT = 'this is a simulation';

export function loadZstd(): undefined {
  return undefined;
}
