// A work directory for a test: real, empty at first, and removed afterwards.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { FileFacts } from '../../src/model/file/file-state.ts';
import type { WorkDir } from '../../src/native/beneath.ts';
import { fileFacts } from '../../src/native/files.ts';

export interface TestDir extends WorkDir {
  /** Writes a file and the directories above it. Returns its absolute path. */
  write(name: string, content: string | Uint8Array): string;
  read(name: string): string;
  has(name: string): boolean;
  /** Names in a directory; none if it does not exist. */
  names(dir: string): readonly string[];
  facts(name: string): FileFacts;
  remove(): void;
}

/** `below`: where to make it. */
export function testDir(below = os.tmpdir()): TestDir {
  const root = fs.mkdtempSync(path.join(below, 'capture-test-'));
  const fd = fs.openSync(root, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  const at = (name: string): string => path.join(root, name);
  return {
    fd,
    path: root,
    write: (name, content) => {
      fs.mkdirSync(path.dirname(at(name)), { recursive: true });
      fs.writeFileSync(at(name), content);
      return at(name);
    },
    read: (name) => fs.readFileSync(at(name), 'utf8'),
    has: (name) => fs.lstatSync(at(name), { throwIfNoEntry: false }) !== undefined,
    names: (dir) => (fs.existsSync(at(dir)) ? fs.readdirSync(at(dir)).toSorted() : []),
    facts: (name) => fileFacts(fs.lstatSync(at(name), { bigint: true })),
    remove: () => {
      fs.closeSync(fd);
      fs.rmSync(root, { recursive: true, force: true });
    },
  };
}
