import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodePath } from '../../src/model/path.ts';
import { entriesIn, isEmptyDirectory } from '../../src/native/directory-entries.ts';

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-entries-'));
});
afterEach(() => fs.rmSync(dir, { recursive: true }));

const openHere = (): number =>
  fs.readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return fs.readlinkSync(`/proc/self/fd/${fd}`) === dir;
    } catch {
      return false; // of this very listing
    }
  }).length;

/** More than are read at once. */
const MANY = 20_000;
const fill = (): void => {
  for (let n = 0; n < MANY; n += 1) fs.closeSync(fs.openSync(`${dir}/${n}`, 'w'));
};

describe('the entries of a directory', () => {
  it('come once each, with their kind, whatever bytes their names are', () => {
    const bytes = (...more: readonly number[]): Buffer => Buffer.from([...Buffer.from(`${dir}/`), ...more]);
    fs.writeFileSync(`${dir}/plain`, '');
    fs.writeFileSync(`${dir}/größe`, '');
    fs.writeFileSync(`${dir}/real \uFFFD`, '');
    fs.writeFileSync(bytes(0x66, 0xff), '');
    fs.mkdirSync(bytes(0xfe));
    fs.symlinkSync('plain', bytes(0x6c, 0xe4));
    const found = [...entriesIn(dir)].map(
      (entry) => `${entry.name} ${entry.isFile()} ${entry.isDirectory()} ${entry.isSymbolicLink()}`,
    );
    const escaped = (...name: readonly number[]): string => decodePath(Uint8Array.from(name));
    expect(found.toSorted()).toEqual(
      [
        'plain true false false',
        'größe true false false',
        'real \uFFFD true false false',
        `${escaped(0x66, 0xff)} true false false`,
        `${escaped(0xfe)} false true false`,
        `${escaped(0x6c, 0xe4)} false false true`,
      ].toSorted(),
    );
    fs.writeFileSync(bytes(0xfe, 0x2f, 0x61), '');
    expect([...entriesIn(`${dir}/${escaped(0xfe)}`)].map(({ name }) => name)).toEqual(['a']);
  });

  it('are read in pieces: names that are removed before their piece do not come', () => {
    fill();
    let count = 0;
    for (const _ of entriesIn(dir)) {
      if (count === 0) for (let n = 0; n < MANY; n += 1) fs.unlinkSync(`${dir}/${n}`);
      count += 1;
    }
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThan(MANY);
  });

  it('come all, also over several pieces', () => {
    fill();
    const names = [...entriesIn(dir)].map(({ name }) => name);
    expect(names).toHaveLength(MANY);
    expect(new Set(names).size).toBe(MANY);
  });

  it('leave no directory open, also when the caller leaves', () => {
    fs.writeFileSync(`${dir}/one`, '');
    for (const _ of entriesIn(dir)) {
      expect(openHere()).toBe(1);
      break;
    }
    expect([...entriesIn(dir)]).toHaveLength(1);
    expect(openHere()).toBe(0);
  });

  it('are none in a directory that is empty', () => {
    expect(isEmptyDirectory(dir)).toBe(true);
    fs.writeFileSync(`${dir}/one`, '');
    expect(isEmptyDirectory(dir)).toBe(false);
    expect(openHere()).toBe(0);
    expect(() => [...entriesIn(`${dir}/one`)]).toThrow('ENOTDIR');
  });
});
