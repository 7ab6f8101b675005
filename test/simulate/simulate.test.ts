// A short part of `npm run simulate`: the schedules of the first seeds, in virtual time, and plans in which it once
// found something.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const SIMULATE = fileURLToPath(new URL('simulate.mjs', import.meta.url));

/** Some ten seconds of CPU time. */
const SCHEDULES = 200;

function simulate(...args: readonly string[]): { readonly status: number | null; readonly printed: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [SIMULATE, ...args], { encoding: 'utf8' });
  return { status, printed: stdout + stderr };
}

it('finds nothing torn, nothing lost and nothing claimed in the schedules of the first seeds', () => {
  const { status, printed } = simulate('--seed', '1', '--schedules', String(SCHEDULES));
  expect(status, printed).toBe(0);
  // Not every event is as frequent as this one, which needs a socket.
  expect(printed).toContain('flush: flushed');
});

const FOUND = fileURLToPath(new URL('found', import.meta.url));

it('finds nothing any more in the plans in which it once found something', () => {
  const { status, printed } = simulate('--found');
  expect(status, printed).toBe(0);
  expect(printed).toContain(`\n${fs.readdirSync(FOUND).length} schedules, `);
});

it('makes the same run of the same plan, step by step', () => {
  const plan = fs.readFileSync(`${FOUND}/death-while-the-store-is-silent.json`, 'utf8');
  const linesOf = (): string[] => simulate('--plan', plan, '--trace').printed.split('\n').slice(0, -2);
  const [once, again] = [linesOf(), linesOf()];
  expect(once).toEqual(again);
  expect(once.length).toBeGreaterThan(50);
});

it('sees a mistake that is planted in a decision', () => {
  const { status, printed } = simulate('--mutants', 'the-oldest-set-is-restored', '--seconds', '50');
  expect(status, printed).toBe(0);
});
