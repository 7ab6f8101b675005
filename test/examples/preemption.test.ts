// The job scripts of README, docs/preemption and examples: each command line of capture in them is a right one.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parse } from '../cli/given.ts';

/** Lines of code that hold a command line of capture, as words; what the shell or the engine fills in is 7. */
function commandLines(file: string): readonly (readonly string[])[] {
  const text = readFileSync(file, 'utf8').replaceAll(/\\\\?\n\s*/g, ' ');
  const code = file.endsWith('.md')
    ? [...text.matchAll(/^```\w*\n(.*?)^```/gms)].map(([, body]) => body)
    : [text];
  return code
    .join('\n')
    .split('\n')
    .flatMap((line) => /(?:^ *|exec )capture (-.*)$|^arguments *= (.*)$/.exec(line)?.slice(1) ?? [])
    .filter((words) => words !== undefined)
    .map((words) =>
      words
        .replaceAll(/\$(\{[^}]*\}|\([^)]*\)|\w+)/g, '7')
        .replaceAll(/["']|\s&$/g, '')
        .trim()
        .split(/\s+/),
    );
}

it.each([
  ['docs/preemption.md', 1],
  ['docs/preemption/slurm.md', 1],
  ['examples/slurm/array.sbatch', 1],
  ['examples/apptainer/array.sbatch', 1],
  ['examples/pbs/array.pbs', 1],
  ['examples/lsf/array.lsf', 1],
  ['examples/gridengine/array.sge', 1],
  ['examples/htcondor/array.sub', 1],
  ['README.md', 1],
  ['docs/start/slurm.md', 1],
  ['docs/which-role/gromacs.md', 2],
])('%s has right command lines', (file, count) => {
  const lines = commandLines(file);
  expect(lines).toHaveLength(count);
  for (const line of lines) {
    const at = ['--to', 's3://my-bucket/melt', ...line];
    expect(parse(at, { SLURM_JOB_ID: '7' }), line.join(' ')).toMatchObject({ kind: 'run', warnings: [] });
  }
});
