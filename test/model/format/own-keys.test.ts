// A record is believed about the keys that its own index builds, and about no others.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkpointKey,
  type KeyScope,
  partialKey,
  recordKey,
  resultKey,
  segmentKey,
} from '../../../src/model/format/keys.ts';
import { foreignKeyIn } from '../../../src/model/format/own-keys.ts';
import type { CaptureRecord, Generation, StoredFile } from '../../../src/model/format/records.ts';

const SCOPE: KeyScope = { taskName: 't', index: '5' };
const AT = '2026-01-01T00:00:00.000Z';
/** Of the record. */
const ATTEMPT = 3;

const EMPTY: CaptureRecord = {
  format: 1,
  kind: 'stored',
  push: 'p',
  capture: '0',
  attempt: ATTEMPT,
  seq: 1,
  at: AT,
  task: SCOPE.taskName,
  index: SCOPE.index,
  runToken: 'r',
  host: 'h',
  argv: [],
  scheduler: {},
  startedAt: AT,
  segments: [],
  results: [],
  partials: [],
  kept: {},
  generations: [],
  left: [],
};

function file(path: string, key: string, compressed = false): StoredFile {
  const facts = { push: 'p', attempt: 1, md5: '0'.repeat(32), size: 1, mtimeNs: '0', mode: 0o600 };
  return { ...facts, path, kind: 'file', key, compressed };
}

function set(extra: Partial<Generation>): CaptureRecord {
  const generation = { attempt: 1, generation: 1, at: AT, members: [], companions: [], ...extra };
  return { ...EMPTY, generations: [generation] };
}

function companion(path: string, key: string, compressed = false): CaptureRecord {
  const segment = { key, push: 'p', first: 0, size: 1, md5: '0'.repeat(32), compressed };
  return set({ companions: [{ path, size: 1, mode: 0o600, segments: [segment] }] });
}

/** Each place of a record in which a key stands, with this one in it. */
const PLACES = {
  result: (path: string, key: string, z = false) => ({ ...EMPTY, results: [file(path, key, z)] }),
  partial: (path: string, key: string, z = false) => ({ ...EMPTY, partials: [file(path, key, z)] }),
  member: (path: string, key: string, z = false) => set({ members: [file(path, key, z)] }),
  companion,
  lacking: (path: string, key: string) => set({ lacking: [{ path, open: true, attempt: 1, key }] }),
  list: (_: string, key: string) => ({ ...EMPTY, segments: [key] }),
} as const;
type Place = keyof typeof PLACES;

const isForeign = (place: Place, path: string, key: string, z = false): boolean =>
  foreignKeyIn(PLACES[place](path, key, z), SCOPE) === key;

const names = ['a', 'x.zst', 'x.5.1-2', '%', '\u0007', '\udc80', 'y'.repeat(230), 'p.5.partial-1', 't.5'];
const paths = fc
  .array(fc.oneof(fc.constantFrom(...names), fc.stringMatching(/^[a-z.-]{1,9}[a-z]$/)), {
    minLength: 1,
    maxLength: 6,
  })
  .map((parts) => parts.join('/'));

describe('the keys of a record', () => {
  it('are believed as an attempt builds them, whatever the path', () => {
    const attempts = fc.integer({ min: 1, max: ATTEMPT });
    fc.assert(
      fc.property(paths, attempts, fc.nat(20), fc.boolean(), (path, attempt, n, z) => {
        const at = { attempt, n, generation: n, segment: n };
        const own: Record<Place, string> = {
          result: resultKey(path, SCOPE, z),
          partial: partialKey(path, SCOPE, at, z),
          member: checkpointKey(path, SCOPE, at, z),
          companion: segmentKey(path, SCOPE, at, z),
          lacking: partialKey(path, SCOPE, at, z),
          list: recordKey(SCOPE, attempt, n, 'list'),
        };
        for (const place of Object.keys(own) as Place[])
          expect(isForeign(place, path, own[place], z), `${place} ${own[place]}`).toBe(false);
      }),
    );
  });

  it.each<[Place, string, string]>([
    ['result', 'a', 'a'],
    ['result', 'a', 'b.5'],
    ['result', 'a', 'a.9'],
    ['result', 'a', 'a.5.zst'],
    ['result', 'a', 'a.5.partial-1'],
    ['result', '../a', '../a.5'],
    ['partial', 'a', 'a.5'],
    ['partial', 'a', 'a.9.partial-1'],
    ['partial', 'a', 'a.5.partial-0'],
    ['partial', 'a', 'a.5.partial-1/x'],
    ['partial', 'a', `a.5.partial-${ATTEMPT + 1}`],
    ['member', 'a', 'a.5'],
    ['member', 'a', 'a.t.9.1-1'],
    ['member', 'a', 'a.u.5.1-1'],
    ['member', 'a', 'a.t.5.1-1.1'],
    ['member', 'a', 'b.t.5.1-1'],
    ['member', 'a', `a.t.5.${ATTEMPT + 1}-1`],
    ['companion', 'a', 'a.t.5.1-1'],
    ['companion', 'a', 'a.t.9.1-1.1'],
    ['lacking', 'a', 'a.5'],
    ['lacking', 'a', 'b.5.partial-1'],
    ['list', '', '.capture/t/9/0001-000001.list.json'],
    ['list', '', '.capture/t/5/0001-000001.done.json'],
    ['list', '', '.capture/t/5/9/0001-000001.list.json'],
    ['list', '', '.capture/t/5/0004-000001.list.json'],
  ])('are not believed: a %s of the path %j with the key %j', (place, path, key) => {
    expect(isForeign(place, path, key)).toBe(true);
  });

  it('are not believed of results that a later attempt has stored', () => {
    const later = { ...EMPTY, results: [{ ...file('a', 'a.5'), attempt: ATTEMPT + 1 }] };
    expect(foreignKeyIn(later, SCOPE)).toBe('a.5');
  });

  it('are not believed of a set that a later attempt has made, even an empty one', () => {
    expect(foreignKeyIn(set({ attempt: ATTEMPT, generation: 7 }), SCOPE)).toBeUndefined();
    expect(foreignKeyIn(set({ attempt: ATTEMPT + 1, generation: 7 }), SCOPE)).toBe('set 4-7');
  });
});
