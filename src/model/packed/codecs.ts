// The rows of small things that are known of many files.
import type { Fingerprint } from '../file/fingerprint.ts';
import { FINGERPRINT_BYTES, readFingerprint, writeFingerprint } from './fields.ts';
import type { RowCodec } from './packed-map.ts';

export const fingerprintRow: RowCodec<Fingerprint> = {
  bytes: FINGERPRINT_BYTES,
  write: writeFingerprint,
  read: readFingerprint,
};

/** Instants, sizes. */
export const numberRow: RowCodec<number> = {
  bytes: 8,
  write: (value, row, at) => row.writeDoubleLE(value, at) > 0,
  read: (row, at) => row.readDoubleLE(at),
};

/** For a map that is used as a set. */
export const markRow: RowCodec<true> = {
  bytes: 0,
  write: () => true,
  read: () => true,
};
