// What is shown of the output of a task that has failed.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { lastLines } from '../../src/many/last-lines.ts';
import { testDir } from '../support/work-dir.ts';

const dir = testDir();
afterAll(() => dir.remove());

function shown(text: string): readonly string[] {
  dir.write('log', text);
  return lastLines(`${dir.path}/log`);
}

it('shows the last twenty lines, without empty ones', () => {
  const lines = Array.from({ length: 22 }, (_, n) => `line ${n}`);
  expect(shown(`${lines.join('\n\n')}\n`)).toEqual(lines.slice(2));
});

it('shows nothing of earlier attempts', () => {
  const begins = (attempt: number): string =>
    `2026-11-22T21:07:40.853Z capture: task sh, index 0, attempt ${attempt} -> file:///s; results: x`;
  expect(shown([begins(1), 'old', begins(2), 'new', ''].join('\n'))).toEqual(['new']);
});

it('shows nothing if there is no file', () => {
  expect(lastLines(`${dir.path}/none`)).toEqual([]);
});

it('shows nothing, and does not wait, if somebody has put a FIFO or a link there', () => {
  execFileSync('mkfifo', [`${dir.path}/fifo`]);
  expect(lastLines(`${dir.path}/fifo`)).toEqual([]);
  dir.write('secret', 'secret');
  fs.symlinkSync(`${dir.path}/secret`, `${dir.path}/link`);
  expect(lastLines(`${dir.path}/link`)).toEqual([]);
});
