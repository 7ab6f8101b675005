// Fields of rows: numbers and names in a short binary form, used only if they can be read back exactly. Also the rows
// of small values that are kept for many files.
import type { Fingerprint } from '../file/file-state.ts';
import type { RowCodec } from './packed-map.ts';

export const FINGERPRINT_BYTES = 40;
export const MD5_BYTES = 16;
export const UUID_BYTES = 16;

/** False unless the decimal fits into a signed 64-bit integer. */
export function writeDecimal(text: string, row: Buffer, at: number): boolean {
  if (!/^(0|-?[1-9]\d{0,18})$/.test(text)) return false;
  const value = BigInt(text);
  if (BigInt.asIntN(64, value) !== value) return false;
  row.writeBigInt64LE(value, at);
  return true;
}

export function readDecimal(row: Buffer, at: number): string {
  return row.readBigInt64LE(at).toString();
}

/** False unless it is an unsigned 32-bit integer. */
export function writeCount(value: number, row: Buffer, at: number): boolean {
  if (value >>> 0 !== value) return false;
  row.writeUInt32LE(value, at);
  return true;
}

/** Writes only these fields: a file state may have more. */
export function writeFingerprint(facts: Fingerprint, row: Buffer, at: number): boolean {
  row.writeDoubleLE(facts.size, at);
  return (
    writeDecimal(facts.dev, row, at + 8) &&
    writeDecimal(facts.ino, row, at + 16) &&
    writeDecimal(facts.mtimeNs, row, at + 24) &&
    writeDecimal(facts.ctimeNs, row, at + 32)
  );
}

export function readFingerprint(row: Buffer, at: number): Fingerprint {
  return {
    dev: readDecimal(row, at + 8),
    ino: readDecimal(row, at + 16),
    size: row.readDoubleLE(at),
    mtimeNs: readDecimal(row, at + 24),
    ctimeNs: readDecimal(row, at + 32),
  };
}

/** False unless it is 32 lower-case hexadecimal digits. */
export function writeMd5(md5: string, row: Buffer, at: number): boolean {
  if (!/^[0-9a-f]{32}$/.test(md5)) return false;
  row.write(md5, at, 'hex');
  return true;
}

export function readMd5(row: Buffer, at: number): string {
  return row.toString('hex', at, at + MD5_BYTES);
}

/** False unless it has the form of `randomUUID()`. */
export function writeUuid(id: string, row: Buffer, at: number): boolean {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) return false;
  row.write(id.replaceAll('-', ''), at, 'hex');
  return true;
}

export function readUuid(row: Buffer, at: number): string {
  const hex = row.toString('hex', at, at + UUID_BYTES);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

export const fingerprintRow: RowCodec<Fingerprint> = {
  bytes: FINGERPRINT_BYTES,
  write: writeFingerprint,
  read: readFingerprint,
};
