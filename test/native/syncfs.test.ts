import fs from 'node:fs';
import os from 'node:os';
import { describe, expect, it } from 'vitest';
import { canSyncFileSystem, reportsFailedWrites, syncFileSystem } from '../../src/native/syncfs.ts';

describe('syncfs', () => {
  it.each([
    ['5.7.19', false],
    ['4.18.0-553.el8_10.x86_64', false],
    ['5.8.0', true],
    ['5.14.0-503.el9.x86_64', true],
    ['6.1.0-26-amd64', true],
    ['unknown', false],
  ])('of Linux %s tells of a write that failed: %s', (release, tells) => {
    expect(reportsFailedWrites(release)).toBe(tells);
  });

  it('stands for an fsync of each file only where it is known to be as good', () => {
    expect(canSyncFileSystem({ fd: -1, path: '/dev/shm' })).toBe(reportsFailedWrites(os.release()));
    expect(canSyncFileSystem({ fd: -1, path: '/proc' })).toBe(false);
  });

  it('resolves when all is on the disk, and says what is wrong with the descriptor', async () => {
    const fd = fs.openSync(os.tmpdir(), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    await syncFileSystem({ fd, path: os.tmpdir() });
    fs.closeSync(fd);
    await expect(syncFileSystem({ fd: -1, path: os.tmpdir() })).rejects.toMatchObject({ code: 'EBADF' });
  });
});
