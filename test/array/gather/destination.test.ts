// What a disk that loses a write means: src/array/gather/destination.ts.
import fs from 'node:fs';
import os from 'node:os';
import { expect, it, vi } from 'vitest';
import { Destination } from '../../../src/array/gather/destination.ts';
import { reportsFailedWrites } from '../../../src/native/syncfs.ts';
import { testDir } from '../../support/work-dir.ts';

it.runIf(reportsFailedWrites(os.release()))(
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
      await destination.close(false);
      expect(fs.readdirSync(dir)).toEqual([]);
    } finally {
      fs.rmSync(dir, { recursive: true });
    }
  },
);

it('places nothing below a directory that becomes a link out between the look and the rename', async () => {
  const [dir, outside] = [testDir(), testDir()];
  const destination = new Destination(dir.path, { dryRun: false });
  try {
    const path = '3/out/f';
    dir.write('.capture/gather/whole', 'planted');
    dir.write('3/f', 'there');
    const out = `${dir.path}/3/out`;
    fs.mkdirSync(out);
    const lstat = fs.lstatSync;
    let looks = 0;
    const spy = vi.spyOn(fs, 'lstatSync').mockImplementation((...args: Parameters<typeof fs.lstatSync>) => {
      const stat = lstat(...args);
      looks += 1;
      if (looks === 4) {
        fs.rmdirSync(out);
        fs.symlinkSync(outside.path, out);
      }
      return stat;
    });
    const source = {
      path,
      key: 'k',
      kind: 'file',
      size: 7,
      md5: '',
      mtimeNs: '0',
      compressed: false,
    } as const;
    const { signal } = new AbortController();
    const why = await destination.place({ source, temp: '.capture/gather/whole' }, signal);
    spy.mockRestore();
    expect(looks).toBe(4);
    expect(why).toBe('a directory above it is a link');
    expect(outside.names('.')).toEqual([]);
  } finally {
    await destination.close(true);
    dir.remove();
    outside.remove();
  }
});
