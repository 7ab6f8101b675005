// docs/which-role.md: each command line in it is a right one, and its patterns mean the files that it names. So are those
// of docs/coming-from.md.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { compileManifest, type Roles } from '../../src/model/file/manifest.ts';
import { parsed } from '../cli/given.ts';

const PAGE = readFileSync('docs/which-role.md', 'utf8');
const LINES = [...PAGE.matchAll(/^```sh\n(.*?)^```/gms)]
  .map(([, body = '']) => body.replaceAll(/\\\n\s*/g, ' ').trim())
  .filter((body) => body.startsWith('capture '));

/** As a shell has them: words in quotes are one. */
const words = (line: string): readonly string[] =>
  [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
const rolesIn = (line: string, path: string): string => {
  const { settings } = parsed(['--to', '/s', ...words(line).slice(1)]);
  const roles: Roles = compileManifest(settings.manifest).rolesOf(path);
  return Object.entries(roles)
    .flatMap(([role, has]) => (has ? [role] : []))
    .join(' ');
};

describe('the recipe', () => {
  it.each(LINES)('%s', (line) => {
    expect(parsed(['--to', '/s', ...words(line).slice(1)])).toMatchObject({ kind: 'run', warnings: [] });
  });

  it.each([
    ['[ab].rst', 'b.rst', 'checkpoint'],
    ['melt.*.rst', 'melt.1000.rst', 'checkpoint'],
    ['--newest 1', 'step-000120/mesh/points', 'checkpoint'],
    ['--checkpoint-last part.index', 'part.index', 'checkpoint'],
    ["--checkpoint-last 'step", 'step-000120/complete', 'checkpoint'],
    ['sim.db*', 'sim.db-wal', 'checkpoint'],
    ['gmx mdrun', 'traj.xtc', 'result companion'],
    ['CAPTURED_ATTEMPT', 'traj.2.dump', 'result companion'],
    ['./steps.sh', 'out/align', 'result input'],
    ['./steps.sh', 'out/align.tmp', ''],
    ['make -j', 'a.out', 'result input'],
    ['make -j', 'a.out.tmp', ''],
    ['./snake.sh', 'results/a/b.txt', 'result input'],
  ])('with %s makes of %s: %s', (recipe, path, roles) => {
    const line = LINES.find((one) => one.includes(recipe)) ?? '';
    expect(rolesIn(line, path)).toBe(roles);
  });

  it('is there for each kind of program', () => expect(LINES).toHaveLength(14));
});

/** The options in the table of programs. */
const PROGRAMS = [...PAGE.matchAll(/^\| [^|]+ \| `(-[rk] [^|`]+)` \|/gm)].map(([, options = '']) => options);

describe('the row of a program', () => {
  it.each(PROGRAMS)('%s', (options) => {
    const given = ['--to', '/s', ...words(options), '--', './task'];
    expect(parsed(given)).toMatchObject({ kind: 'run', warnings: [] });
  });

  it('is there for each program', () => expect(PROGRAMS).toHaveLength(12));
});

const REPLACED = [...readFileSync('docs/coming-from.md', 'utf8').matchAll(/^capture --to .*$/gm)].map(String);

it.each(REPLACED)('what replaces a script is right: %s', (line) => {
  expect(parsed(words(line).slice(1), { SLURM_ARRAY_TASK_ID: '3' })).toMatchObject({
    kind: 'run',
    warnings: [],
  });
});

it('is there for each script', () => expect(REPLACED).toHaveLength(4));
