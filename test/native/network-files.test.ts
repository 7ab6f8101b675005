// Which file systems are shared by the network: there a write by another node causes no event.
import { describe, expect, it } from 'vitest';
import { isNetworkFileSystem, networkFileSystem } from '../../src/native/network-files.ts';

describe('networkFileSystem', () => {
  it.each([
    [0x6969, 'nfs'],
    [0xff534d42, 'cifs'],
    // As a signed word, which some platforms answer with.
    [0xff534d42 | 0, 'cifs'],
    [0x0bd00bd0, 'lustre'],
    [0x01021994, undefined], // tmpfs
    [0xef53, undefined], // ext4
  ])('knows 0x%x as %s', (type, name) => {
    expect(networkFileSystem(type)).toBe(name);
  });
});

it.each([
  ['nfs', true],
  ['nfs4', true],
  ['smb3', true],
  ['fuse', true],
  ['fuse.sshfs', true],
  ['virtiofs', true],
  ['ext4', false],
  ['tmpfs', false],
  ['fuseblk', false],
])('%s is one: %s', (name, isOne) => {
  expect(isNetworkFileSystem(name)).toBe(isOne);
});
