// The example of Nextflow, with a stand-in that skips what is in storeDir, as Nextflow does.
import { expect, it } from 'vitest';
import { differAfterKill, KILLED_AT_SUM } from './killed.ts';

it('Nextflow makes only what is missing, killed in the middle', async () => {
  const differ = await differAfterKill('nextflow', {
    reference: 'nextflow run main.nf',
    same: ['results/1.sum', 'results/6.sum'],
    killedAt: KILLED_AT_SUM,
    resumes: /skipping/,
  });
  expect(differ).toEqual([]);
});
