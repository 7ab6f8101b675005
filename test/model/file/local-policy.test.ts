import { expect, test } from 'vitest';
import { decideLocal, type LocalDecision, type LocalQuestion } from '../../../src/model/file/local-policy.ts';

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
