// Which of the objects that deaths have left of results may go, and which are all there is.
import { expect, it } from 'vitest';
import { sortPartials, type PartialsQuestion } from '../../../src/model/outcome/partials.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';

const file = (path: string, attempt: number, md5 = 'a'): StoredFile => ({
  path,
  kind: 'file',
  key: `${path}.0.partial-${attempt}`,
  push: `${path}-${attempt}`,
  attempt,
  md5: md5.repeat(32),
  size: 1,
  compressed: false,
  mtimeNs: '0',
  mode: 0o644,
});
const sorted = (question: Partial<PartialsQuestion>): Record<string, readonly string[]> => {
  const answer = sortPartials({
    partials: [],
    resultOf: () => undefined,
    isWrittenNow: () => false,
    isLacking: () => false,
    generations: [],
    ...question,
  });
  return Object.fromEntries(
    Object.entries(answer).map(([kind, files]) => [kind, files.map(({ key }: StoredFile) => key)]),
  );
};

it('is obsolete when the result was stored by a later attempt, or written by this one', () => {
  const partials = ['later', 'before', 'now'].map((path) => file(path, 2));
  const results = new Map([
    ['later', file('later', 3)],
    ['before', file('before', 1)],
  ]);
  expect(
    sorted({ partials, resultOf: (path) => results.get(path), isWrittenNow: (path) => path === 'now' }),
  ).toEqual({ obsolete: ['later.0.partial-2', 'now.0.partial-2'], whole: [], unproven: [] });
});

it('stays when the later attempt has only written the rest of the result', () => {
  const partials = [file('traj', 1)];
  expect(sorted({ partials, resultOf: () => file('traj', 2), isLacking: () => true })).toEqual({
    obsolete: [],
    whole: [],
    unproven: [],
  });
});

it.each([
  ['of an incomplete set', file('a', 1), { incomplete: true }],
  ['of another file', file('b', 1), {}],
  ['with other bytes', file('a', 1, 'b'), {}],
])('is not known to be whole by a member %s', (_, member, marks) => {
  const generations = [{ attempt: 1, generation: 1, at: '', members: [member], companions: [], ...marks }];
  expect(sorted({ partials: [file('a', 1)], generations })).toMatchObject({
    whole: [],
    unproven: ['a.0.partial-1'],
  });
});

it('is all there is of a result: the newest one counts, and is whole when a good set holds its bytes', () => {
  const partials = [file('a', 1), file('a', 2), file('state', 1, 'c'), file('torn', 1, 'd')];
  const members = [file('state', 1, 'c')];
  const torn = {
    attempt: 1,
    generation: 2,
    at: '',
    members: [file('torn', 1, 'd')],
    companions: [],
    suspect: true,
  };
  expect(
    sorted({ partials, generations: [torn, { attempt: 1, generation: 1, at: '', members, companions: [] }] }),
  ).toEqual({ obsolete: [], whole: ['state.0.partial-1'], unproven: ['a.0.partial-2', 'torn.0.partial-1'] });
});
