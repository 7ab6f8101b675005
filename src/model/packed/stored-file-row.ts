// A stored file as a row of 63 bytes.
import { SEALED } from '../format/keys.ts';
import type { StoredFile } from '../format/records.ts';
import type { RelPath } from '../path.ts';
import {
  MD5_BYTES,
  UUID_BYTES,
  readDecimal,
  readMd5,
  readUuid,
  writeCount,
  writeDecimal,
  writeMd5,
  writeUuid,
} from './fields.ts';
import type { RowCodec } from './packed-map.ts';

const LINK = 1;
const COMPRESSED = 2;
const SUSPECT = 4;
const STORED_SIZE_KNOWN = 8;
const SEALED_OBJECT = 16;

const PUSH = 1;
const MD5 = PUSH + UUID_BYTES;
const MTIME = MD5 + MD5_BYTES;
const SIZE = MTIME + 8;
const ATTEMPT = SIZE + 8;
const STORED_SIZE = ATTEMPT + 4;
const MODE = STORED_SIZE + 8;

/** `index`: of the scope; most keys are the path and the index. A value with another key is not packed. */
export function storedFileRow(index: string): RowCodec<StoredFile> {
  const keyOf = (path: RelPath, compressed: boolean, isSealed: boolean): string =>
    `${path}.${index}${compressed ? '.zst' : ''}${isSealed ? SEALED : ''}`;
  return {
    bytes: MODE + 2,
    write: (file, row, at, path) => {
      const { kind, compressed, suspect, storedSize } = file;
      const isSealed = file.key.endsWith(SEALED);
      row[at] =
        (kind === 'link' ? LINK : 0) |
        (compressed ? COMPRESSED : 0) |
        (suspect === true ? SUSPECT : 0) |
        (storedSize === undefined ? 0 : STORED_SIZE_KNOWN) |
        (isSealed ? SEALED_OBJECT : 0);
      row.writeDoubleLE(file.size, at + SIZE);
      row.writeDoubleLE(storedSize ?? 0, at + STORED_SIZE);
      row.writeUInt16LE(file.mode, at + MODE);
      return (
        file.path === path &&
        suspect !== false &&
        file.key === keyOf(path, compressed, isSealed) &&
        writeUuid(file.push, row, at + PUSH) &&
        writeMd5(file.md5, row, at + MD5) &&
        writeDecimal(file.mtimeNs, row, at + MTIME) &&
        writeCount(file.attempt, row, at + ATTEMPT)
      );
    },
    read: (row, at, path) => {
      const flags = row[at] ?? 0;
      const compressed = (flags & COMPRESSED) !== 0;
      return {
        path,
        kind: (flags & LINK) === 0 ? 'file' : 'link',
        key: keyOf(path, compressed, (flags & SEALED_OBJECT) !== 0),
        push: readUuid(row, at + PUSH),
        attempt: row.readUInt32LE(at + ATTEMPT),
        md5: readMd5(row, at + MD5),
        size: row.readDoubleLE(at + SIZE),
        ...((flags & STORED_SIZE_KNOWN) === 0 ? {} : { storedSize: row.readDoubleLE(at + STORED_SIZE) }),
        compressed,
        mtimeNs: readDecimal(row, at + MTIME),
        mode: row.readUInt16LE(at + MODE),
        ...((flags & SUSPECT) === 0 ? {} : { suspect: true }),
      };
    },
  };
}
