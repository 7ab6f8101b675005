// Users of this machine, by uid (credentials(7)).
import fs from 'node:fs';
import path from 'node:path';
import { encodePath } from '../model/path.ts';

export const ROOT_UID = 0;

/** True for the user that we act as, and for root, who can do all that we can. */
export function isOursOrRoots(uid: number): boolean {
  return uid === ROOT_UID || uid === process.geteuid?.();
}

const STICKY = 0o1000;

/**
 * True for another user's file in a directory where everybody may create names, such as /tmp: the rule of
 * fs.protected_regular (proc_sys_fs(5)). `uid` is the file's owner.
 */
export function isStrangers(file: string, uid: number): boolean {
  const dir = fs.statSync(encodePath(path.dirname(file)));
  return (dir.mode & STICKY) !== 0 && uid !== dir.uid && !isOursOrRoots(uid);
}
