import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RestoreRole } from '../../src/model/file/local-policy.ts';
import { surveyLocal, type Surveyed } from '../../src/restore/local.ts';
import type { Source } from '../../src/restore/source.ts';
import { memoryStore } from '../support/memory-store.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { storeFile } from './restore-files.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

async function survey(source: Source, role: RestoreRole = 'resumed'): Promise<Surveyed | undefined> {
  return (await surveyLocal(dir, [source], { role, onLocal: 'stored' }))[0];
}

const source = (content: string, kind: 'file' | 'link' = 'file'): Source =>
  storeFile(memoryStore(), 'a/k.chk', content, { kind });

test('a file that is not there is fetched', async () => {
  expect(await survey(source('state'))).toMatchObject({ local: 'absent', decision: 'fetch' });
});

test('a file with the same bytes stays, whatever its times', async () => {
  fs.utimesSync(dir.write('a/k.chk', 'state'), 1, 1);
  expect(await survey(source('state'))).toMatchObject({
    local: 'same',
    decision: 'keep',
    localIsNewer: false,
  });
});

test.each(['STATE', 'state and more'])('a file with other bytes (%s) makes room', async (content) => {
  dir.write('a/k.chk', content);
  expect(await survey(source('state'))).toMatchObject({
    local: 'differs',
    decision: 'replace',
    localIsNewer: true,
  });
});

test('an input stays, whatever it is', async () => {
  fs.mkdirSync(path.join(dir.path, 'a/k.chk'), { recursive: true });
  expect(await survey(source('state'), 'input')).toMatchObject({ decision: 'keep' });
});

test('a link is the same when it points to the same, and never the same as a file', async () => {
  dir.write('a/state', 'state');
  fs.symlinkSync('state', path.join(dir.path, 'a/k.chk'));
  expect(await survey(source('state', 'link'))).toMatchObject({ local: 'same' });
  expect(await survey(source('other', 'link'))).toMatchObject({ local: 'differs' });
  expect(await survey(source('state'))).toMatchObject({ local: 'differs' });
});

test('a name that leads out is not looked at', async () => {
  expect(await survey({ ...source('state'), path: '../../etc/passwd' })).toMatchObject({ local: 'absent' });
});
