// A stored file as a row of 63 bytes.
import { sealedEnding, type SealedEnding } from '../format/keys.ts';
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
const ENDING: Readonly<Record<SealedEnding, number>> = { '.age': 16, '.gpg': 32 };

const PUSH = 1;
const MD5 = PUSH + UUID_BYTES;
const MTIME = MD5 + MD5_BYTES;
const SIZE = MTIME + 8;
const ATTEMPT = SIZE + 8;
const STORED_SIZE = ATTEMPT + 4;
const MODE = STORED_SIZE + 8;

/** `index`: of the scope; most keys are the path and the index. A value with another key is not packed. */
export function storedFileRow(index: string): RowCodec<StoredFile> {
  const keyOf = (path: RelPath, compressed: boolean, ending: string): string =>
    `${path}.${index}${compressed ? '.zst' : ''}${ending}`;
  return {
    bytes: MODE + 2,
    write: (file, row, at, path) => {
      const { kind, compressed, suspect, storedSize } = file;
      const ending = sealedEnding(file.key);
      row[at] =
        (kind === 'link' ? LINK : 0) |
        (compressed ? COMPRESSED : 0) |
        (suspect === true ? SUSPECT : 0) |
        (storedSize === undefined ? 0 : STORED_SIZE_KNOWN) |
        (ending === undefined ? 0 : ENDING[ending]);
      row.writeDoubleLE(file.size, at + SIZE);
      row.writeDoubleLE(storedSize ?? 0, at + STORED_SIZE);
      row.writeUInt16LE(file.mode, at + MODE);
      return (
        file.path === path &&
        suspect !== false &&
        file.key === keyOf(path, compressed, ending ?? '') &&
        writeUuid(file.push, row, at + PUSH) &&
        writeMd5(file.md5, row, at + MD5) &&
        writeDecimal(file.mtimeNs, row, at + MTIME) &&
        writeCount(file.attempt, row, at + ATTEMPT)
      );
    },
    read: (row, at, path) => {
      const flags = row[at] ?? 0;
      const compressed = (flags & COMPRESSED) !== 0;
      const ending = (['.age', '.gpg'] as const).find((one) => (flags & ENDING[one]) !== 0) ?? '';
      return {
        path,
        kind: (flags & LINK) === 0 ? 'file' : 'link',
        key: keyOf(path, compressed, ending),
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
