// The scratch directories that killed runners of our user have left. Their locks say which are abandoned, and since when.
import fs from 'node:fs';
import path from 'node:path';
import type { Log } from '../log/log.ts';
import { bootId } from '../native/boot-id.ts';
import { pidNamespace } from '../native/directory-use.ts';
import { tryLock } from '../native/files.ts';
import { fileSystemType, networkFileSystem } from '../native/network-files.ts';
import { holdPrivateDir, makePrivateFile, openHeldFile } from '../native/private-dir.ts';
import { readStat } from '../native/processes.ts';
import { LOCK, removeRest, SET_ASIDE, useOf } from './left-work.ts';
import { rootsIn } from './roots.ts';

/**
 * Makes the lock of a scratch directory. It is locked first and then renamed into place, so nobody finds it unlocked. It
 * contains the name of its directory, so a directory that somebody has renamed is not mistaken for it; the boot of its
 * machine; and where and since when the processes of its tasks can be seen.
 */
export function lock(root: string): number {
  const fd = makePrivateFile(root, 'lock.new');
  tryLock(fd);
  const since = readStat(process.pid)?.startTicks ?? 0;
  fs.writeFileSync(fd, [path.basename(root), bootId(), pidNamespace() ?? '', since].join('\n'));
  fs.renameSync(path.join(root, 'lock.new'), path.join(root, LOCK));
  return fd;
}

/**
 * Removes what killed runners of our user left, if their tasks have ended since. If it is in doubt whether they have,
 * unsaved directories are set aside. On a network file system a lock may not reach other machines (Lustre's localflock,
 * local_lock of nfs(5)): what another one left there is its own.
 */
export async function removeAbandoned(
  base: string,
  log: Pick<Log, 'warn'>,
  fateOf = SET_ASIDE,
): Promise<void> {
  const isShared = networkFileSystem(fileSystemType(base)) !== undefined;
  for await (const root of rootsIn(base)) {
    try {
      const held = holdPrivateDir(root);
      let fd: number | undefined;
      try {
        fd = openHeldFile(held, LOCK, fs.constants.O_RDWR);
        const text = tryLock(fd) ? fs.readFileSync(fd, 'utf8') : '';
        const [name, boot, namespace, since] = text.split('\n');
        if (name !== path.basename(root) || (isShared && boot !== bootId())) continue;
        const use = await useOf(held, root, Number(since ?? 0));
        if (use === 'some') continue;
        // From another PID namespace its processes may not be seen.
        const isSure = use === 'none' && namespace !== '' && namespace === pidNamespace();
        await removeRest(held, root, log, isSure ? fateOf : SET_ASIDE);
      } finally {
        if (fd !== undefined) fs.closeSync(fd);
        held.close();
      }
    } catch {
      // Another runner is removing it, too, or nobody may remove it.
    }
  }
}
