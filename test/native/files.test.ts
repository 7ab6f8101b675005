import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openBySteps, type WorkDir } from '../../src/native/beneath.ts';
import {
  fileFacts,
  openBeneath,
  openToAppend,
  setMtime,
  showsEachWrite,
  unseenForMs,
} from '../../src/native/files.ts';
import { readStat } from '../../src/native/processes.ts';

let root: WorkDir;
beforeEach(() => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'open-beneath-'));
  root = { fd: fs.openSync(dir, 'r'), path: dir };
});
afterEach(() => {
  fs.closeSync(root.fd);
  fs.rmSync(root.path, { recursive: true });
});

const isAsleep = (pid = 0): boolean => readStat(pid)?.state === 'S';

describe('openBeneath', () => {
  it.each<[string, string, string]>([
    ['a link', 'ln -s own it', 'ELOOP'],
    ['a link to a device', 'ln -s /dev/null it', 'ELOOP'],
    ['a file behind a link', 'mkdir d; echo x > d/it; ln -s d l', 'ELOOP'],
    ['a directory', 'mkdir it', 'EINVAL'],
    ['a FIFO', 'mkfifo it', 'EINVAL'],
    ['nothing', 'true', 'ENOENT'],
  ])('refuses %s', (what, make, code) => {
    execFileSync('sh', ['-c', make], { cwd: root.path });
    const name = what.includes('behind') ? 'l/it' : 'it';
    expect(() => openBeneath(root, name)).toThrow(expect.objectContaining({ code }));
  });

  it.each(['../it', '/etc/passwd', 'd/../../it'])('refuses %j', (name) => {
    expect(() => openBeneath(root, name)).toThrow(/EXDEV|ENOENT/);
  });

  it('is as strict where openat2(2) is missing', () => {
    execFileSync('sh', ['-c', 'mkdir -p d/e; echo x > d/e/it; ln -s d l; ln -s it d/e/link'], {
      cwd: root.path,
    });
    const open = (name: string): number => openBySteps(root.fd, name, fs.constants.O_RDONLY);
    const fd = open('d/e/it');
    expect(fs.readFileSync(fd, 'utf8')).toBe('x\n');
    fs.closeSync(fd);
    expect(() => open('l/e/it')).toThrow(expect.objectContaining({ code: 'ENOTDIR' }));
    expect(() => open('d/e/link')).toThrow(expect.objectContaining({ code: 'ELOOP' }));
    expect(() => open('../it')).toThrow(expect.objectContaining({ code: 'EXDEV' }));
    expect(() => open('d/../../it')).toThrow(expect.objectContaining({ code: 'EXDEV' }));
  });

  it('does not let the writer of a FIFO go on', async () => {
    execFileSync('mkfifo', [`${root.path}/p`]);
    const writer = spawn('sh', ['-c', 'echo ready; exec 3>p; echo x >&3'], { cwd: root.path });
    await once(writer.stdout, 'data');
    // It has nothing more to wait for than its open(2).
    while (!isAsleep(writer.pid)) await turn();
    expect(() => openBeneath(root, 'p')).toThrow('not a regular file');
    expect(writer.exitCode).toBe(null);
    expect(execFileSync('timeout', ['10', 'cat', 'p'], { cwd: root.path, encoding: 'utf8' })).toBe('x\n');
  });
});

describe('showsEachWrite', () => {
  it.each([
    ['6.13.0-arch', 0xef53, true],
    ['7.0', 0x01021994, true],
    ['6.12.9-200', 0xef53, false],
    ['5.14.0-503.el9', 0xef53, false],
    ['7.0', 0x858458f6, false], // ramfs
    ['7.0', 0x9123683e - 2 ** 32, true], // Btrfs, as a signed number
  ] as const)('on kernel %s, of type %d: %s', (kernel, type, shown) => {
    expect(showsEachWrite(kernel, type)).toBe(shown);
  });
});

describe('unseenForMs', () => {
  const EXT4 = 0xef53;
  const FAT = 0x4d44;
  const RAMFS = 0x858458f6;
  it.each([
    ['a fraction, multigrain', '1700000000123456789', 0, EXT4, 0],
    ['a fraction, of a tick', '1700000000123456789', 5, RAMFS, 15],
    ['a fraction, an older one', '1700000000123456789', 20, RAMFS, 0],
    ['a fraction, ahead of our clock', '1700000000123456789', -5000, RAMFS, 20],
    ['whole seconds', '1700000000000000000', 300, EXT4, 720],
    ['whole seconds, an older one', '1700000000000000000', 1020, EXT4, 0],
    ['even seconds', '1700000000000000000', 300, FAT, 1720],
    ['even seconds, an older one', '1700000000000000000', 2020, FAT, 0],
  ] as const)('%s', (_what, ctimeNs, ageMs, type, forMs) => {
    fs.writeFileSync(path.join(root.path, 'file'), '');
    const facts = { ...fileFacts(fs.statSync(path.join(root.path, 'file'), { bigint: true })), ctimeNs };
    expect(unseenForMs(facts, ageMs, '6.18.0', () => type)).toBe(forMs);
  });
});

describe('setMtime', () => {
  it.each(['1700000000123456789', '0', '999999999', '-1', '-1500000000', '13569465600000000001'])(
    'keeps %s ns exactly',
    (ns) => {
      const fd = fs.openSync(path.join(root.path, 'file'), 'w+');
      setMtime(fd, ns);
      expect(String(fs.fstatSync(fd, { bigint: true }).mtimeNs)).toBe(ns);
      fs.closeSync(fd);
    },
  );
});

describe.skipIf(process.getuid?.() !== 0)('openToAppend', () => {
  const STRANGER = 65_534;
  let file: string;
  beforeEach(() => {
    file = path.join(root.path, 'log');
  });

  it.each([
    ['everybody', 0o777],
    ['a group', 0o2775],
    ['only its owner', 0o755],
  ])('follows no link of another user, and opens no FIFO of theirs, where %s may write', (_, mode) => {
    fs.chmodSync(root.path, mode);
    fs.writeFileSync(path.join(root.path, 'mine'), 'x');
    fs.symlinkSync('mine', file);
    fs.lchownSync(file, STRANGER, STRANGER);
    const refused = expect.objectContaining({
      code: 'EPERM',
      message: expect.stringContaining('user 65534'),
    });
    expect(() => openToAppend(file)).toThrow(refused);
    fs.unlinkSync(file);
    execFileSync('mkfifo', [file]);
    fs.chownSync(file, STRANGER, STRANGER);
    expect(() => openToAppend(file)).toThrow(refused);
  });

  it('follows our own link', () => {
    fs.chmodSync(root.path, 0o777);
    fs.symlinkSync('mine', file);
    const fd = openToAppend(file);
    fs.writeSync(fd, 'x');
    fs.closeSync(fd);
    expect(fs.readFileSync(path.join(root.path, 'mine'), 'utf8')).toBe('x');
  });

  it('neither follows nor waits for what takes the place of a file at the last moment', () => {
    const lstat = vi.spyOn(fs, 'lstatSync');
    onTestFinished(() => lstat.mockRestore());
    const swaps = [() => fs.symlinkSync('mine', file), () => execFileSync('mkfifo', [file])];
    for (const swap of swaps) {
      lstat.mockImplementationOnce(() => {
        swap();
        return undefined;
      });
      expect(() => openToAppend(file)).toThrow(/ELOOP|ENXIO/);
      fs.unlinkSync(file);
    }
    expect(fs.readdirSync(root.path)).toEqual([]);
  });
});
