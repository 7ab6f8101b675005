import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseForeignJson } from '../../../src/model/format/foreign-json.ts';
import { textWithSum } from '../../../src/model/format/records.ts';
import { bundle } from '../../support/bundle.ts';

describe('JSON of others', () => {
  it('is what JSON.parse makes of it', () => {
    const any = fc.oneof(
      fc.json(),
      fc.string(),
      fc.string({ unit: fc.constantFrom('"', '\\', '[', '{', 'a') }),
    );
    fc.assert(
      fc.property(any, (text) => {
        let expected: unknown;
        try {
          expected = { value: JSON.parse(text) as unknown };
        } catch {
          expected = { invalid: 'not JSON' };
        }
        expect(parseForeignJson(text)).toEqual(expected);
      }),
    );
  });

  it.each([
    ['[[["["]]]', 4],
    ['{"a":"b,c:{","\\"]":[1,2]}', 7],
    ['[]', 2],
    ['1', 1],
  ])('counts at least each name and each value of %s', (text, values) => {
    const budget = { left: 100 };
    expect(parseForeignJson(text, budget)).toHaveProperty('value');
    expect(100 - budget.left).toBe(values);
  });

  it('is made of so many values, and no more', () => {
    const most = `[${Array(999_999).fill('1').join(',')}]`;
    expect(parseForeignJson(most)).toHaveProperty('value');
    expect(parseForeignJson(most.replace(']', ',1]'))).toEqual({
      invalid: 'it has more than 1000000 names and values',
    });
  });

  it('is nested 64 deep, and no deeper', () => {
    expect(parseForeignJson(`${'['.repeat(64)}${']'.repeat(64)}`)).toHaveProperty('value');
    expect(parseForeignJson(`${'['.repeat(65)}${']'.repeat(65)}`)).toEqual({
      invalid: 'it is nested more than 64 deep',
    });
  });

  it('takes of a budget what it is made of, and nothing if it is not made', () => {
    const budget = { left: 10 };
    expect(parseForeignJson('[1,2,3]', budget)).toHaveProperty('value');
    expect(parseForeignJson('[1,2,3', budget)).toEqual({ invalid: 'not JSON' });
    expect(parseForeignJson('[1,2,3,4,5,6]', budget)).toEqual({
      invalid: 'with others that are read already it has too many names and values',
    });
    expect(budget).toEqual({ left: 6, isExceeded: true });
  });
});

describe('a record of 16 MiB, or of as many values as are read, fits into half of the heap of bin/capture', () => {
  let dir: string;
  let reader: string;
  beforeAll(async () => {
    dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-json-'));
    reader = await bundle('test/model/fixtures/read-record.ts', dir);
  });
  afterAll(() => fs.rmSync(dir, { recursive: true }));

  const names = (most: number): object =>
    Object.fromEntries(Array.from({ length: most }, (_, at) => [`k${at.toString(36)}`, 1]));
  const empty = (most: number): readonly object[] => Array.from({ length: most }, () => ({}));
  const FIELDS = { format: 1, capture: '0.1.0', attempt: 1, task: 't', index: '0', runToken: 't', host: 'h' };
  const RECORD = { ...FIELDS, argv: ['t'], startedAt: '2026-11-24T12:57:31.245Z', kind: 'stored', push: 'p' };
  const text = (more: object): string => textWithSum({ ...RECORD, seq: 1, at: RECORD.startedAt, ...more });

  it.each<[string, () => string, string]>([
    ['a name for each value', () => text({ kept: names(499_900) }), 'read'],
    ['empty objects', () => text({ kept: {}, x: empty(499_900) }), 'read'],
    [
      'objects with names of their own',
      () => text({ x: Array.from({ length: 249_900 }, (_, at) => ({ [`k${at}`]: 1 })) }),
      'read',
    ],
    ['empty objects, more than are read', () => text({ x: empty(5_000_000) }), 'more than 1000000'],
    ['arrays in arrays', () => `{"format":1,"host":${'['.repeat(8e6)}${']'.repeat(7e6)}}`, 'nested more'],
    ['one long text', () => text({ host: 'h'.repeat(16e6) }), 'read'],
  ])('%s', (_, make, says) => {
    const file = path.join(dir, 'record');
    fs.writeFileSync(file, make());
    const flags = ['--max-old-space-size=128', '--max-semi-space-size=1'];
    const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, reader, file], {
      encoding: 'utf8',
    });
    expect(status, stderr).toBe(0);
    expect(stdout).toContain(says);
  });
});
