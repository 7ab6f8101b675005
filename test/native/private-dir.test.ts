import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  inPrivateDir,
  makePrivateDir,
  makePrivateFile,
  openPrivateFile,
  readPrivateFile,
  removePrivateFile,
  replacePrivateFile,
} from '../../src/native/private-dir.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const ANOTHER_USER = 54_321;
const isRoot = process.geteuid?.() === 0;

let root: TestDir;
let dir: string;
beforeEach(() => {
  root = testDir();
  dir = `${root.path}/own`;
});
afterEach(() => root.remove());

function modeOf(path: string): number {
  return fs.statSync(path).mode & 0o777;
}

describe('a private directory', () => {
  it('is made for our user only, whatever the umask', () => {
    const before = process.umask(0);
    try {
      makePrivateDir(dir);
    } finally {
      process.umask(before);
    }
    expect(modeOf(dir)).toBe(0o700);
  });

  it('of ours in which others may write is closed to them', () => {
    fs.mkdirSync(dir);
    fs.chmodSync(dir, 0o2777);
    makePrivateDir(dir);
    expect(modeOf(dir)).toBe(0o700);
  });

  it('is never one for all users, such as /tmp', () => {
    fs.mkdirSync(dir);
    fs.chmodSync(dir, 0o1777);
    expect(() => makePrivateDir(dir)).toThrow(`${dir} is a directory for all users`);
    expect(fs.statSync(dir).mode & 0o7777).toBe(0o1777);
  });

  it.each<[string, (at: string) => void]>([
    ['a link', (at) => fs.symlinkSync(fs.mkdtempSync(`${root.path}/`), at)],
    ['a link to nothing', (at) => fs.symlinkSync(`${at}-elsewhere`, at)],
    ['a file', (at) => fs.writeFileSync(at, '')],
    ['a FIFO', (at) => void spawnSync('mkfifo', [at])],
  ])('is refused if %s has its name', (_, plant) => {
    plant(dir);
    expect(() => makePrivateDir(dir)).toThrow(`${dir} is a link, or not a directory`);
    expect(() => replacePrivateFile(dir, 'file', 'text')).toThrow('not a directory');
    expect(readPrivateFile(dir, 'file')).toBeUndefined();
  });

  it.runIf(isRoot).each([0o700, 0o755, 0o777])('of another user is refused, mode %o', (mode) => {
    fs.mkdirSync(dir);
    fs.chmodSync(dir, mode);
    fs.writeFileSync(`${dir}/file`, 'planted');
    fs.chownSync(dir, ANOTHER_USER, ANOTHER_USER);
    expect(() => makePrivateDir(dir)).toThrow(`${dir} belongs to user ${ANOTHER_USER}, and we are 0`);
    expect(() => replacePrivateFile(dir, 'file', 'text')).toThrow('belongs to user');
    expect(readPrivateFile(dir, 'file')).toBeUndefined();
    expect(fs.readdirSync(dir)).toEqual(['file']);
  });

  it('that is replaced while it is used is still the one that was looked at', () => {
    makePrivateDir(dir);
    fs.mkdirSync(`${dir}-other`);
    inPrivateDir(dir, (at) => {
      fs.renameSync(dir, `${dir}-moved`);
      fs.symlinkSync(`${dir}-other`, dir);
      fs.writeFileSync(`${at}/file`, '');
    });
    expect(fs.readdirSync(`${dir}-other`)).toEqual([]);
    expect(fs.readdirSync(`${dir}-moved`)).toEqual(['file']);
  });
});

describe('a file in it', () => {
  const victim = (): string => `${root.path}/victim`;
  beforeEach(() => {
    makePrivateDir(dir);
    fs.writeFileSync(victim(), 'precious');
  });

  const PLANTED: readonly [string, (at: string) => void][] = [
    ['a link to a file', (at) => fs.symlinkSync(victim(), at)],
    ['a link to nothing', (at) => fs.symlinkSync(`${root.path}/made`, at)],
    ['a hard link', (at) => fs.linkSync(victim(), at)],
    ['a FIFO', (at) => void spawnSync('mkfifo', [at])],
    ['a file', (at) => fs.writeFileSync(at, 'older', { mode: 0o666 })],
  ];

  it('is not read if it is larger than any that we write', () => {
    replacePrivateFile(dir, 'file', 'text');
    fs.truncateSync(`${dir}/file`, 2 ** 33);
    expect(readPrivateFile(dir, 'file')).toBeUndefined();
  });

  it.each(PLANTED)('is written through nothing, though its name is %s', (_, plant) => {
    plant(`${dir}/file`);
    plant(`${dir}/file.new`);
    replacePrivateFile(dir, 'file', 'text');
    expect(fs.readFileSync(victim(), 'utf8')).toBe('precious');
    expect(fs.existsSync(`${root.path}/made`)).toBe(false);
    expect(readPrivateFile(dir, 'file')).toBe('text');
    expect(modeOf(`${dir}/file`)).toBe(0o600);
    expect(fs.readdirSync(dir)).toEqual(['file']);
  });

  it.each(PLANTED)('is created again, or not at all where there is %s', (_, plant) => {
    plant(`${dir}/file`);
    expect(() => makePrivateFile(dir, 'file')).toThrow('EEXIST');
    removePrivateFile(dir, 'file');
    expect(fs.existsSync(victim())).toBe(true);
    fs.closeSync(makePrivateFile(dir, 'file'));
  });

  it.each(PLANTED.filter(([what]) => what.includes('link to') || what === 'a FIFO'))(
    'is not read, locked or waited for if it is %s',
    (_, plant) => {
      plant(`${dir}/file`);
      expect(readPrivateFile(dir, 'file')).toBeUndefined();
      const { O_RDWR, O_CREAT } = fs.constants;
      expect(() => openPrivateFile(dir, 'file', O_RDWR | O_CREAT)).toThrow(/ELOOP|is not a file of ours/);
      expect(fs.existsSync(`${root.path}/made`)).toBe(false);
    },
  );

  it.runIf(isRoot)('of another user is none', () => {
    fs.writeFileSync(`${dir}/file`, 'planted');
    fs.chownSync(`${dir}/file`, ANOTHER_USER, ANOTHER_USER);
    expect(readPrivateFile(dir, 'file')).toBeUndefined();
    expect(() => openPrivateFile(dir, 'file', fs.constants.O_RDWR)).toThrow('is not a file of ours');
  });
});
