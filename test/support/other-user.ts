// A second user of the machine, for tests that root runs: what this user can reach, wherever the tests run.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** Belongs to nobody on any machine. */
export const NOBODY = 65_534;

export const asNobody = { uid: NOBODY, gid: NOBODY } as const;

/** A directory for temporary files that all users may enter: that of `os.tmpdir()` need not be one. */
export function tmpdirForAll(): string {
  const dirs = [os.tmpdir(), '/var/tmp', '/dev/shm', '/run'];
  const found = dirs.find(mayBeEntered);
  if (found === undefined) throw new Error(`no other user may enter one of ${dirs.join(', ')}`);
  return found;
}

/** A `bin/capture` that all users may run: `bin` itself, or, in a checkout that is closed to them, a copy in `dir`. */
export function programForAll(bin: string, dir: string): string {
  if (mayBeEntered(path.dirname(bin))) return bin;
  const root = path.resolve(bin, '../..');
  const packages = ['koffi', '@koromix', 'zstd-napi', '@parcel'].map((name) => `node_modules/${name}`);
  for (const part of ['bin', 'dist', 'package.json', ...packages])
    fs.cpSync(path.join(root, part), path.join(dir, 'installed', part), { recursive: true });
  return path.join(dir, 'installed/bin/capture');
}

/** Every directory on the way may be searched by others. */
function mayBeEntered(dir: string): boolean {
  const mode = fs.statSync(dir, { throwIfNoEntry: false })?.mode ?? 0;
  return (mode & 0o001) !== 0 && (dir === '/' || mayBeEntered(path.dirname(dir)));
}
