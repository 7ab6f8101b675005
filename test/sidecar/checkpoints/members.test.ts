// Which checkpoint files are looked at for a cut: of very many names that came and went, those that are there.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { compileManifest } from '../../../src/model/file/manifest.ts';
import type { RelPath } from '../../../src/model/path.ts';
import { membersAmong } from '../../../src/sidecar/checkpoints/members.ts';
import { Files } from '../../../src/sidecar/queue/files.ts';
import type { Context } from '../../../src/sidecar/run/context.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

const NAMES = 2000;
/** Far fewer than there are names, and more than are looked at though they are gone. */
const MOST_LOOKS = 250;

let root: TestDir;
let files: Files;
let looks: readonly unknown[][];
beforeEach(() => {
  root = testDir();
  files = new Files({
    push: () => new Promise(() => undefined),
    rolesOf: () => ['checkpoint'],
    replaces: () => false,
    sizeOf: () => 0,
    now: () => 0,
  });
  looks = vi.spyOn(fs, 'lstatSync').mock.calls;
});
afterEach(() => {
  vi.restoreAllMocks();
  root.remove();
});

function closed(name: RelPath): void {
  files.closed(name, 'close', 0);
}

function members(): readonly RelPath[] {
  const patterns = { results: [], checkpoints: ['ck.*'], inputs: [], companions: [], exclude: [] };
  const manifest = compileManifest({ ...patterns, newest: undefined });
  const context = { root, manifest, settings: { manifest: { newest: undefined } } };
  return membersAmong(context as unknown as Context, files.standing, () => undefined);
}

function manyThatWent(): void {
  for (let n = 0; n < NAMES; n += 1) closed(`ck.${n}`);
  root.write('ck.5', 'x');
  expect(members()).toEqual(['ck.5']);
  looks = vi.spyOn(fs, 'lstatSync').mockClear().mock.calls;
}

it('names that are gone are looked at no more, but for the last of them', () => {
  manyThatWent();
  expect(members()).toEqual(['ck.5']);
  expect(looks.length).toBeLessThan(MOST_LOOKS);
});

it('a name that comes again is a member again, however many went after it', () => {
  manyThatWent();
  root.write('ck.0', 'x');
  closed('ck.0');
  expect(members()).toEqual(['ck.0', 'ck.5']);
});

it('a file that is removed and written anew is a member as soon as it is there, before it is closed', () => {
  manyThatWent();
  fs.rmSync(`${root.path}/ck.5`);
  expect(members()).toEqual([]);
  root.write('ck.5', 'y');
  expect(members()).toEqual(['ck.5']);
});

it('a file that was there before the task is a member', () => {
  root.write('ck.old', 'x');
  files.inherit('ck.old', root.facts('ck.old'));
  expect(members()).toEqual(['ck.old']);
});
