import { describe, expect, it } from 'vitest';
import { committedLine, preferenceLine } from '../../../src/model/checkpoint/generation-words.ts';
import type { Generation, StoredFile } from '../../../src/model/format/records.ts';

const file = (path: string, size: number): StoredFile => ({ path, size }) as StoredFile;
const set = (generation: number, marks: Partial<Generation> = {}): Generation => ({
  attempt: 3,
  generation,
  at: '2026-11-21T22:00:00.000Z',
  members: [file('a.chk', 2 ** 20), file('b.chk', 2 ** 20)],
  companions: [],
  ...marks,
});

describe('a committed set', () => {
  it('is safe, with its files and their size', () => {
    expect(committedLine(set(1))).toBe('checkpoint 3-1 is safe (2 files, 2.0 MiB)');
  });

  it('counts companions that are declared apart from results that ride with it', () => {
    const beside = (marks: object) => ({ path: 'x', size: 0, mode: 0, segments: [], ...marks });
    const companions = [beside({}), beside({ result: true })];
    expect(committedLine(set(1, { companions }))).toBe(
      'checkpoint 3-1 is safe (2 files, 1 companion, 1 open result, 2.0 MiB)',
    );
    expect(committedLine(set(1, { members: [], companions: companions.slice(0, 1) }))).toBe(
      'checkpoint 3-1 is safe (1 companion, 0 B)',
    );
  });

  it('that its check has refused says so, and not that a death may have cut it', () => {
    expect(committedLine(set(1, { suspect: true }), 'its check ended with 1')).toBe(
      'checkpoint 3-1 is stored, and marked suspect, as its check ended with 1 (2 files, 2.0 MiB)',
    );
  });

  it.each<[string, Partial<Generation>]>([
    [
      'checkpoint 3-1 is stored, and not proven yet: a dying process may have closed a file of it (2 files, 2.0 MiB)',
      { unproven: true },
    ],
    ['checkpoint 3-1 is stored and may be half-written (2 files, 2.0 MiB)', { suspect: true }],
    ['checkpoint 3-1 is stored, and incomplete (2 files, 2.0 MiB)', { incomplete: true }],
  ])('is not called safe otherwise: %s', (line, marks) => {
    expect(committedLine(set(1, marks))).toBe(line);
  });
});

describe('what restore prefers', () => {
  it('is named', () => {
    expect(preferenceLine([set(2, { suspect: true }), set(1)])).toBe('restore prefers checkpoint 3-1');
  });

  it('is not promised when there is no other', () => {
    expect(preferenceLine([set(1, { suspect: true })])).toBe(
      'there is no other, so restore takes it all the same',
    );
  });
});
