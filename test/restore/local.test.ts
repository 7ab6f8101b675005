import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { md5Of } from '../../src/model/md5.ts';
import {
  decideLocal,
  type LocalDecision,
  type LocalQuestion,
  md5OfFile,
  type RestoreRole,
  surveyLocal,
  type SurveyedFile,
} from '../../src/restore/local.ts';
import type { Source } from '../../src/restore/source.ts';
import { memoryStore } from '../support/memory-store.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { storeFile } from './restore-files.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

async function survey(source: Source, role: RestoreRole = 'resumed'): Promise<SurveyedFile | undefined> {
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

test('a name that no file system takes is not there: the fetch refuses it', async () => {
  const tooLong = { ...source('state'), path: 'k'.repeat(300) };
  expect(await survey(tooLong)).toMatchObject({ local: 'absent', decision: 'fetch' });
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

const question: LocalQuestion = { role: 'resumed', local: 'differs', localIsNewer: false, onLocal: 'stored' };

test.each<readonly [string, Partial<LocalQuestion>, LocalDecision]>([
  ['what is not there is fetched', { local: 'absent' }, 'fetch'],
  ['an input that is not there is fetched', { role: 'input', local: 'absent' }, 'fetch'],
  ['an input stays although it differs', { role: 'input', onLocal: 'stored' }, 'keep'],
  ['what is the same stays', { local: 'same' }, 'keep'],
  ['the stored one wins', {}, 'replace'],
  ['the stored one wins over a newer local one', { localIsNewer: true }, 'replace'],
  [
    'the newer local one stays when the newest is asked for',
    { localIsNewer: true, onLocal: 'newest' },
    'keep',
  ],
  ['an older local one makes room when the newest is asked for', { onLocal: 'newest' }, 'replace'],
])('%s', (_sentence, part, decision) => {
  expect(decideLocal({ ...question, ...part })).toBe(decision);
});

test('a file longer than one read is hashed whole', async () => {
  const bytes = randomBytes(2 ** 20 + 17);
  const fd = fs.openSync(dir.write('big', bytes), 'r');
  expect(await md5OfFile(fd)).toBe(md5Of(bytes));
  fs.closeSync(fd);
});
