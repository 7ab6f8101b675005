// What a killed attempt has left beside the set that is restored: real files in a work directory.
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeEach, expect, it } from 'vitest';
import { compileManifest } from '../../../src/model/file/manifest.ts';
import type { Generation, StoredFile } from '../../../src/model/format/records.ts';
import { setLeftoversAside } from '../../../src/sidecar/startup/leftovers.ts';
import type { RestoreJob } from '../../../src/sidecar/startup/restore-job.ts';
import { testDir } from '../../support/work-dir.ts';

const SET_S = 1_000_000;
const dir = testDir();
afterAll(() => dir.remove());

let warned: string[];
beforeEach(() => {
  warned = [];
  for (const name of fs.readdirSync(dir.path)) fs.rmSync(path.join(dir.path, name), { recursive: true });
});

/** A file that was modified so many seconds after the set was closed. */
function write(name: string, laterS: number): void {
  const full = path.join(dir.path, name);
  fs.mkdirSync(path.dirname(full), { recursive: true });
  fs.writeFileSync(full, 'x');
  fs.utimesSync(full, SET_S + laterS, SET_S + laterS);
}

async function restored(
  patterns: Partial<Parameters<typeof compileManifest>[0]>,
  members: readonly string[],
  onLocal: 'stored' | 'newest' = 'stored',
): Promise<readonly string[]> {
  const fd = fs.openSync(dir.path, 'r');
  try {
    const manifest = compileManifest({
      results: [],
      checkpoints: [],
      inputs: [],
      companions: [],
      exclude: [],
      ...patterns,
    } as Parameters<typeof compileManifest>[0]);
    const job = {
      root: { fd, path: dir.path },
      manifest,
      settings: { onLocal },
      log: { warn: (line: string) => void warned.push(line) },
      signal: new AbortController().signal,
    } as unknown as RestoreJob;
    const files = members.map((name) => ({ path: name, mtimeNs: `${SET_S}000000000` }) as StoredFile);
    const generation = { attempt: 1, generation: 4, members: files, companions: [] } as unknown as Generation;
    await setLeftoversAside(job, generation);
  } finally {
    fs.closeSync(fd);
  }
  return fs.readdirSync(dir.path).filter((name) => name !== '.capture');
}

it('is moved aside if it is newer than the set and not in it', async () => {
  for (const name of ['ck.a', 'ck.b']) write(name, 5);
  expect(await restored({ checkpoints: ['ck.?'] }, ['ck.a'])).toEqual(['ck.a']);
  expect(fs.readdirSync(path.join(dir.path, '.capture/aside'))).toEqual(['1-ck.b']);
  expect(warned).toEqual(['written after checkpoint 1-4 and not in it, now in .capture/aside/: ck.b']);
});

it('is moved with its directory, which a program may take for a checkpoint', async () => {
  write('step-4/a', 0);
  write('step-5/sub/a', 5);
  expect(await restored({ checkpoints: ['step-*/'] }, ['step-4/a'])).toEqual(['step-4']);
});

it.each([
  ['older than the set, as a program keeps them', { checkpoints: ['ck.*'] }, -5],
  ['no checkpoint', { results: ['ck.b'] }, 5],
  ['an input, too', { checkpoints: ['ck.b'], inputs: ['ck.b'] }, 5],
])('stays if it is %s', async (_, patterns, laterS) => {
  write('ck.a', 0);
  write('ck.b', laterS);
  expect(await restored(patterns, ['ck.a'])).toEqual(['ck.a', 'ck.b']);
  expect(warned).toEqual([]);
});

it('stays if the user wants local files to stay', async () => {
  write('ck.a', 0);
  write('ck.b', 5);
  expect(await restored({ checkpoints: ['ck.*'] }, ['ck.a'], 'newest')).toEqual(['ck.a', 'ck.b']);
});
