// The directory of a file store, held open from the first time that it is seen: while the descriptor is open no other
// directory gets its inode. Once it was seen it is never made again: what it held would be lost without a word.
import fs from 'node:fs';
import { dirname } from 'node:path';
import { errnoOf } from '../../model/errors.ts';
import { StoreError } from '../contract/store.ts';
import { makeDirectory } from './sync.ts';

export interface StoreRoot {
  /** Throws `lost` unless the path names the directory that it named before. One that was never there may be missing. */
  check(): Promise<void>;
  /** The same; a directory that was never there is made. */
  make(): Promise<void>;
  close(): Promise<void>;
}

interface Held {
  readonly fd: number;
  readonly dev: bigint;
  readonly ino: bigint;
}

export function openRoot(path: string): StoreRoot {
  let held: Held | undefined;
  let making: Promise<void> | undefined;

  const hold = (): void => {
    // A plain descriptor: unlike a FileHandle it is not closed when nobody refers to it any more.
    const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    const { dev, ino } = fs.fstatSync(fd, { bigint: true });
    held = { fd, dev, ino };
  };
  const check = async (): Promise<void> => {
    if (held === undefined) {
      try {
        return hold();
      } catch (error) {
        return unlessMissing(asNoDirectory(error, path));
      }
    }
    const { dev, ino } = held;
    const now = await fs.promises.stat(path, { bigint: true }).catch(unlessMissing);
    if (now?.dev === dev && now.ino === ino) return;
    throw new StoreError('lost', `${now === undefined ? 'nothing' : 'another directory'} stands at ${path}`);
  };
  const make = async (): Promise<void> => {
    await check();
    if (held !== undefined) return;
    await makeDirectory(path);
    if (held === undefined) hold();
  };
  return {
    check,
    // One at a time: two that found nothing would each make a directory and hold it.
    make: () => (making ??= make().finally(() => (making = undefined))),
    close: async () => {
      if (held !== undefined) fs.closeSync(held.fd);
      held = undefined;
    },
  };
}

function unlessMissing(error: unknown): undefined {
  if (errnoOf(error) === 'ENOENT') return undefined;
  throw error;
}

/** Names the file that stands where the directory, or one above it, should (open(2), ENOTDIR). */
function asNoDirectory(error: unknown, path: string): unknown {
  if (errnoOf(error) !== 'ENOTDIR') return error;
  let at = path;
  while (at !== '/' && !isThere(at)) at = dirname(at);
  return new StoreError('refused', `the store cannot be in ${path}: ${at} is a file, not a directory`, {
    hint: 'name a directory with --to or --from',
    cause: error,
  });
}

function isThere(path: string): boolean {
  try {
    return fs.statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false; // ENOTDIR: what is above it is no directory
  }
}
