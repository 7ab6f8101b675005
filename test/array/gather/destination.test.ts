// What a disk that loses a write means: src/array/gather/destination.ts.
import fs from 'node:fs';
import os from 'node:os';
import { expect, it } from 'vitest';
import { Destination } from '../../../src/array/gather/destination.ts';
import { tellsOfFailedWrites } from '../../../src/native/whole-sync.ts';

it.runIf(tellsOfFailedWrites(os.release()))(
  'believes nothing any more once a sync has failed, as the kernel tells it once',
  async () => {
    // In a tmpfs: of other file systems each file may be synced alone.
    const dir = fs.mkdtempSync('/dev/shm/capture-gather-');
    const destination = new Destination(dir, { dryRun: false });
    try {
      const isHeld = (fd: string): boolean => {
        try {
          return fs.readlinkSync(`/proc/self/fd/${fd}`) === dir;
        } catch {
          return false;
        }
      };
      const held = Number(fs.readdirSync('/proc/self/fd').find(isHeld));
      fs.writeFileSync(`${dir}/.capture/gather/arrived`, 'in memory alone');
      fs.closeSync(held);
      await expect(destination.sync()).rejects.toThrow('a file could not be written to the disk: EBADF');
      // The same number again: syncfs(2) succeeds.
      expect(fs.openSync(dir, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)).toBe(held);
      await expect(destination.sync()).rejects.toThrow('a file could not be written to the disk');
      destination.close(false);
      expect(fs.readdirSync(dir)).toEqual([]);
    } finally {
      fs.rmSync(dir, { recursive: true });
    }
  },
);
