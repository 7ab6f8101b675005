// A second user of the machine for tests that run as root, with directories and a program that this user can reach.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** The uid and gid of nobody, on most machines. */
export const NOBODY = 65_534;

export const asNobody = { uid: NOBODY, gid: NOBODY } as const;

/** A directory for temporary files that all users may enter; `os.tmpdir()` may be closed to others. */
export function tmpdirForAll(): string {
  const dirs = [os.tmpdir(), '/var/tmp', '/dev/shm', '/run'];
  const found = dirs.find(mayBeEntered);
  if (found === undefined) throw new Error(`no other user may enter one of ${dirs.join(', ')}`);
  return found;
}

/** A `bin/capture` that all users may run: `bin` itself or, if others cannot enter the checkout, a copy in `dir`. */
export function programForAll(bin: string, dir: string): string {
  if (mayBeEntered(path.dirname(bin))) return bin;
  const root = path.resolve(bin, '../..');
  const packages = ['koffi', '@koromix', 'zstd-napi', '@parcel'].map((name) => `node_modules/${name}`);
  for (const part of ['bin', 'dist', 'package.json', ...packages])
    fs.cpSync(path.join(root, part), path.join(dir, 'installed', part), { recursive: true });
  return path.join(dir, 'installed/bin/capture');
}

/** True if others may search every directory of the path. */
function mayBeEntered(dir: string): boolean {
  const mode = fs.statSync(dir, { throwIfNoEntry: false })?.mode ?? 0;
  return (mode & 0o001) !== 0 && (dir === '/' || mayBeEntered(path.dirname(dir)));
}
