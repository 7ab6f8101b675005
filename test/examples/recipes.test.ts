// docs/which-role.md, the pages of programs and their examples: each command line in them is a right one, and its patterns
// mean the files that it names. So are those of docs/coming-from.md.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { compileManifest, type Roles } from '../../src/model/file/manifest.ts';
import { parsed } from '../cli/given.ts';

const PAGE = readFileSync('docs/which-role.md', 'utf8');
const HOW_TO = readdirSync('docs/which-role').map((name) => readFileSync(`docs/which-role/${name}`, 'utf8'));
const joined = (text: string): string => text.replaceAll(/\\\n\s*/g, ' ').trim();
const LINES = [PAGE, ...HOW_TO].flatMap((page) =>
  [...page.matchAll(/^```sh\n(.*?)^```/gms)]
    .map(([, body = '']) => joined(body))
    .filter((body) => body.startsWith('capture -')),
);

/** As a shell has them: words in quotes are one. */
const words = (line: string): readonly string[] =>
  [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, quoted, double, plain]) => quoted ?? double ?? plain ?? '',
  );
const given = (line: string) => {
  // The world of these tests has no files.
  const options = words(line.replaceAll('$PWD/', '')).slice(1);
  return parsed(options.includes('--to') ? options : ['--to', '/s', ...options]);
};
const rolesIn = (line: string, path: string): string => {
  const roles: Roles = compileManifest(given(line).settings.manifest).rolesOf(path);
  return Object.entries(roles)
    .flatMap(([role, has]) => (has ? [role] : []))
    .join(' ');
};

describe('the recipe', () => {
  it.each(LINES)('%s', (line) => {
    expect(given(line)).toMatchObject({ kind: 'run', warnings: [] });
  });

  it.each([
    ['[ab].rst', 'b.rst', 'checkpoint'],
    ['melt.*.rst', 'melt.1000.rst', 'checkpoint'],
    ['--newest 1 -- ./solve', 'step-000120/mesh/points', 'checkpoint'],
    ['--checkpoint-last part.index', 'part.index', 'checkpoint'],
    ["--checkpoint-last 'step", 'step-000120/complete', 'checkpoint'],
    ['sim.db*', 'sim.db-wal', 'checkpoint'],
    ['gmx mdrun', 'topol.tpr', 'input'],
    ['gmx mdrun', 'state.cpt', 'checkpoint'],
    ['gmx mdrun', 'traj_comp.xtc', 'result companion'],
    ['gmx mdrun', 'confout.gro', 'result'],
    ['capture-store/lammps', 'melt.log', 'result'],
    ['capture-store/lammps', 'frame.500.dump', 'result'],
    ['attempt $CAPTURED_ATTEMPT', 'traj.2.dump', 'result companion'],
    ['md.sh', 'out/si.save/charge-density.dat', 'checkpoint'],
    ['md.sh', 'out/si.xml', 'result checkpoint'],
    ['md.sh', 'pw.2.out', 'result companion'],
    ['cavity.sh', '0.5/U', 'checkpoint'],
    ['cavity.sh', '12/p', 'result checkpoint'],
    ['cavity.sh', '0/U', 'input'],
    ['cavity.sh', 'constant/transportProperties', 'input'],
    ['train.py', 'train.pt', 'checkpoint'],
    ['train.py', 'model.pt', 'result'],
    ['bootstrap.R', 'state.rds', 'checkpoint'],
    ['walk.py', 'walk.npz', 'checkpoint'],
    ['walk.py', 'walk.tmp.npz', ''],
    ['series.py', 'series.h5', 'checkpoint'],
    ['./steps.sh', 'out/align', 'result input'],
    ['./steps.sh', 'out/align.tmp', ''],
    ['make -j', 'a.out', 'result input'],
    ['make -j', 'a.out.tmp', ''],
    ['snake.sh', 'results/a/b.txt', 'result input'],
    ['snake.sh', 'results/a/b.txt.tmp', ''],
    ['nextflow run', 'results/1.sum', 'result input'],
  ])('with %s makes of %s: %s', (recipe, path, roles) => {
    const line = LINES.find((one) => one.includes(recipe)) ?? '';
    expect(rolesIn(line, path)).toBe(roles);
  });

  it('is there for each kind of program', () => expect(LINES).toHaveLength(21));
});

const EXAMPLES = readdirSync('examples', { withFileTypes: true })
  .filter((one) => one.isDirectory() && readdirSync(`examples/${one.name}`).includes('run.sh'))
  .map(({ name }) => name);
const commandOf = (example: string): string => {
  const [, line = ''] =
    /^exec (capture .*?) -- /ms.exec(joined(readFileSync(`examples/${example}/run.sh`, 'utf8'))) ?? [];
  return `${line.replace(/"\$\{STORE:-\$HOME\/(.*?)\}"/, '~/$1')} -- task`;
};

describe('run.sh of the example', () => {
  it.each(EXAMPLES)('%s is right', (example) => {
    expect(given(commandOf(example))).toMatchObject({ kind: 'run', warnings: [] });
  });

  it.each(EXAMPLES.filter((name) => name !== 'mpi'))('%s is what its page says', (example) => {
    const line = LINES.find((one) => one.includes(`capture-store/${example} `)) ?? '';
    const shown = line.replace(/ -- .*$/, ' -- task');
    expect(given(shown)).toEqual(given(commandOf(example)));
  });

  it('is there for each program', () => expect(EXAMPLES).toHaveLength(11));
});

/** The options in the table of programs. */
const PROGRAMS = [...PAGE.matchAll(/^\| [^|]+ \| `(-[rk] [^|`]+)` \|/gm)].map(([, options = '']) => options);

describe('the row of a program', () => {
  it.each(PROGRAMS)('%s', (options) => {
    expect(given(`capture ${options} -- ./task`)).toMatchObject({ kind: 'run', warnings: [] });
  });

  it('is there for each program', () => expect(PROGRAMS).toHaveLength(10));
});

const REPLACED = [...readFileSync('docs/coming-from.md', 'utf8').matchAll(/^capture --to .*$/gm)].map(String);

it.each(REPLACED)('what replaces a script is right: %s', (line) => {
  expect(parsed(words(line).slice(1), { SLURM_ARRAY_TASK_ID: '3' })).toMatchObject({
    kind: 'run',
    warnings: [],
  });
});

it('is there for each script', () => expect(REPLACED).toHaveLength(4));
