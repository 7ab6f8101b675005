// The job scripts of README, docs and examples leave nothing of their own on a node, and end as capture does, which makes
// and removes the work directories (test/e2e/workdir-auto.test.ts). Capture is stood in for by its status.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPlace, type Place } from '../e2e/support.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const read = (name: string): string => fs.readFileSync(path.join(ROOT, name), 'utf8');

let place: Place;
beforeEach(() => {
  place = openPlace();
  fs.mkdirSync(path.join(place.dir, 'tmp'));
  fs.mkdirSync(path.join(place.dir, 'bin'));
  fs.cpSync(path.join(ROOT, 'examples'), path.join(place.dir, 'examples'), { recursive: true });
});
afterEach(() => place.close());

/** The first block of code in the page that begins with this line and holds this word. */
function scriptIn(page: string, first: string, word: string): string {
  const blocks = [...read(page).matchAll(/^```sh\n(.*?)^```/gms)].map(([, body = '']) => body);
  return blocks.find((body) => body.startsWith(first) && body.includes(word)) ?? '';
}

const SCRIPTS = [
  ['README.md', () => scriptIn('README.md', '#!/bin/bash', '#SBATCH')],
  ['docs/start/slurm.md', () => scriptIn('docs/start/slurm.md', '#!/bin/bash', '#SBATCH')],
  ['docs/which-role/gromacs.md', () => scriptIn('docs/which-role/gromacs.md', '#!/bin/bash', '#SBATCH')],
  ['examples/slurm/array.sbatch', () => read('examples/slurm/array.sbatch')],
  ['examples/pbs/array.pbs', () => read('examples/pbs/array.pbs')],
] as const;

/** Runs it in a job with a capture that ends with the first of these statuses, then with the next, and so on. */
async function leaves(script: string, ...statuses: readonly number[]): Promise<[number, number]> {
  const begun = path.join(place.dir, 'begun');
  const capture = `#!/bin/sh\necho >> ${begun}\nn=$(wc -l < ${begun})\nexit $(echo ${statuses.join(' ')} | cut -d' ' -f$n)\n`;
  const tool = (name: string, text: string): void =>
    fs.writeFileSync(path.join(place.dir, 'bin', name), text, { mode: 0o755 });
  tool('capture', capture);
  tool('qrerun', '#!/bin/sh\n');
  const env = {
    PATH: `${path.join(place.dir, 'bin')}:${process.env['PATH']}`,
    TMPDIR: path.join(place.dir, 'tmp'),
    SLURM_ARRAY_JOB_ID: '12',
    PBS_JOBID: '12',
  };
  const run = place.exec(['bash', script], env);
  const status = await run.status;
  return [status, fs.readdirSync(env.TMPDIR).length];
}

describe.each(SCRIPTS)('the script of %s', (_, text) => {
  it.each([0, 75, 74, 1])('ends as capture with %i, and leaves nothing of its own', async (status) => {
    const script = path.join(place.dir, 'script');
    fs.writeFileSync(script, text());
    for (const option of ['--workdir auto', '--max-attempts 10']) expect(text()).toContain(option);
    expect(await leaves(script, status)).toEqual([status, 0]);
  });
});

describe('examples/loop/loop.sh', () => {
  const loop = (): string => path.join(place.dir, 'examples/loop/loop.sh');

  it('runs again what is preempted, until all are done', async () => {
    expect(await leaves(loop(), 75, 75, 0, 0, 75, 0, 0)).toEqual([0, 0]);
    for (const option of ['--workdir auto', '--max-attempts 10'])
      expect(read('examples/loop/loop.sh')).toContain(option);
  });

  it('ends where something is not stored', async () => {
    expect(await leaves(loop(), 75, 74)).toEqual([74, 0]);
  });
});
