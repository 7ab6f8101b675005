// Which mount a path lies on.
import fs from 'node:fs';
import { expect, it } from 'vitest';
import { mountOf } from '../../src/native/mounts.ts';
import { withFilesAlone } from '../support/files-alone.ts';

const TABLE = [
  '21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw',
  '30 21 0:25 / /home rw shared:2 master:1 - nfs4 server:/home rw',
  '31 21 0:26 / /scratch rw - ext4 /dev/sdb1 rw',
  '32 21 0:27 / /scratch rw - tmpfs tmpfs rw,size=1024k',
  String.raw`33 21 0:28 / /with\040space rw - fuse.sshfs host: rw`,
  '',
].join('\n');

it.each([
  ['/', '/', 'ext4'],
  ['/homes/a', '/', 'ext4'],
  ['/home/a/b', '/home', 'nfs4'],
  ['/home', '/home', 'nfs4'],
  ['/scratch/x', '/scratch', 'tmpfs'],
  ['/with space/x', '/with space', 'fuse.sshfs'],
])('%s lies on %s, %s', (path, point, type) => {
  const found = withFilesAlone({ '/proc/self/mountinfo': TABLE }, () => mountOf(path));
  expect(found).toMatchObject({ point, type });
});

it('nothing is said where the kernel tells nothing', () => {
  expect(withFilesAlone({}, () => mountOf('/tmp'))).toBeUndefined();
});

it('the kernel of this machine tells it for a directory in memory', () => {
  expect(mountOf(fs.realpathSync('/proc'))).toMatchObject({ point: '/proc', type: 'proc' });
});
