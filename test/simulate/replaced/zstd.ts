// In place of src/native/zstd.ts: none is here, so that contents stand in objects as they are.
export const NO_ZSTD_HINT = 'this is a simulation';

export function loadZstd(): undefined {
  return undefined;
}
