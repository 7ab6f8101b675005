// Which of the objects that deaths have left of results may go, and which are all there is.
import { describe, expect, it } from 'vitest';
import { sortPartials, type PartialsQuestion } from '../../../src/model/outcome/partials.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';

const file = (path: string, attempt: number, md5 = 'a', facts: Partial<StoredFile> = {}): StoredFile => ({
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
  suspect: true,
  ...facts,
});
/** One of several states of `a` that attempt 1 has staged: the n-th object, written at that ns. */
const state = (n: number, mtimeNs: number, facts: Partial<StoredFile> = {}): StoredFile =>
  file('a', 1, 'a', { key: `a.0.partial-1.${n}`, push: `a-1-${n}`, mtimeNs: `${mtimeNs}`, ...facts });
const sorted = (question: Partial<PartialsQuestion>): Record<string, readonly string[]> => {
  const answer = sortPartials({
    partials: [],
    resultOf: () => undefined,
    isWrittenNow: () => false,
    isLacking: () => false,
    isProven: () => false,
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
  ).toEqual({
    obsolete: ['later.0.partial-2', 'now.0.partial-2'],
    whole: [],
    // Newer than what is stored, so it is named.
    unproven: ['before.0.partial-2'],
  });
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

it('is all there is of a result: each one is named, but for one that is whole, as a good set holds its bytes', () => {
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
  ).toEqual({
    obsolete: [],
    whole: ['state.0.partial-1'],
    unproven: ['a.0.partial-1', 'a.0.partial-2', 'torn.0.partial-1'],
  });
});

it('is obsolete when a death has emptied it, and counts when it is known to be whole', () => {
  const [emptied, whole] = [state(0, 1, { size: 0 }), file('b', 1, 'a', { size: 0, suspect: undefined })];
  expect(sorted({ partials: [emptied, whole] })).toEqual({
    obsolete: [emptied.key],
    whole: [whole.key],
    unproven: [],
  });
});

it.each([
  ['older', 1, 2, true],
  ['the same', 2, 2, true],
  ['newer', 3, 2, false],
])(
  'that is %s than what its own attempt stored is judged by when it was written',
  (_, ns, storedNs, goes) => {
    const stored = file('a', 1, 'b', { mtimeNs: `${storedNs}` });
    expect(sorted({ partials: [state(0, ns)], resultOf: () => stored })).toEqual({
      obsolete: goes ? ['a.0.partial-1.0'] : [],
      whole: [],
      unproven: goes ? [] : ['a.0.partial-1.0'],
    });
  },
);

it('is obsolete beside what a later attempt stored, whatever its clock said, and not beside an earlier one’s', () => {
  const partials = [state(0, 2_000_000_000)];
  const later = file('a', 2, 'b', { mtimeNs: '1' });
  const earlier = file('a', 0, 'b', { mtimeNs: '3000000000' });
  expect(sorted({ partials, resultOf: () => later })['obsolete']).toHaveLength(1);
  expect(sorted({ partials, resultOf: () => earlier })['unproven']).toHaveLength(1);
});

it('is compared in nanoseconds that no number holds', () => {
  const at = 1_700_000_000_000_000_000n;
  const stored = file('a', 1, 'b', { mtimeNs: `${at}` });
  const newer = file('a', 1, 'a', { mtimeNs: `${at + 1n}` });
  expect(sorted({ partials: [newer], resultOf: () => stored })['unproven']).toHaveLength(1);
});

it('is whole when the end of its attempt found nothing against it', () => {
  expect(sorted({ partials: [state(0, 1, { suspect: undefined })] })).toEqual({
    obsolete: [],
    whole: ['a.0.partial-1.0'],
    unproven: [],
  });
});

it('is whole when a good set followed it', () => {
  const isProven = ({ key }: StoredFile): boolean => key === 'a.0.partial-1.0';
  expect(sorted({ partials: [state(0, 1), file('b', 1)], isProven })).toEqual({
    obsolete: [],
    whole: ['a.0.partial-1.0'],
    unproven: ['b.0.partial-1'],
  });
});

describe('of two states of a result', () => {
  const PROVEN = ({ push }: StoredFile): boolean => push === 'a-1-0';
  const [old, young] = [state(0, 1), state(1, 2)];

  it('both are named when nobody knows of either whether it is whole', () => {
    expect(sorted({ partials: [old, young] })).toEqual({
      obsolete: [],
      whole: [],
      unproven: [old.key, young.key],
    });
  });

  it('a newer whole one makes the older one obsolete', () => {
    const whole = { ...young, suspect: undefined };
    expect(sorted({ partials: [old, whole] })).toEqual({
      obsolete: [old.key],
      whole: [young.key],
      unproven: [],
    });
    expect(sorted({ partials: [old, whole], isProven: PROVEN })).toEqual({
      obsolete: [old.key],
      whole: [young.key],
      unproven: [],
    });
  });

  it('an older whole one gets the name, and the newer one is named and stays where it is', () => {
    expect(sorted({ partials: [old, young], isProven: PROVEN })).toEqual({
      obsolete: [],
      whole: [old.key],
      unproven: [young.key],
    });
  });
});
