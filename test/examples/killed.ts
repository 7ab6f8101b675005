// Runs an example as its README says, with everything killed in the middle, and compares its output with expected.txt.
import fs from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { openPlace } from '../e2e/support.ts';
import { expectOutputOf } from './expected.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

export interface Example {
  /** The same computation without capture. */
  readonly reference: string;
  /** Results that must have the same bytes. */
  readonly same: readonly string[];
  /** Makes the example shorter. */
  readonly shorter?: string;
  /** The first run is killed when the store has so many objects of that name. */
  readonly killedAt?: readonly [atLeast: number, pattern: string];
  /** What the second run says, or capture. */
  readonly resumes?: RegExp;
}

/** A pipeline has no checkpoints. */
export const KILLED_AT_SUM = [3, 'results/*.sum.0'] as const;

/** The commands of the README: what comes before the run that is killed, both runs, and what looks at the results. */
function commandsOf(name: string) {
  const readme = fs.readFileSync(path.join(ROOT, 'examples', name, 'README.md'), 'utf8');
  const lines = (/^```sh\n(.*?)^```/ms.exec(readme)?.[1] ?? '').trim().split('\n');
  const killed = lines.findIndex((line) => line.includes('& sleep'));
  return {
    before: lines.slice(0, killed).join('\n'),
    killed: lines[killed] ?? '',
    again: lines[killed + 1] ?? '',
    after: lines.slice(killed + 2).join('\n'),
  };
}

/** Returns the results that differ from those of the reference. */
export async function differAfterKill(
  name: string,
  { reference, same, shorter = 'true', killedAt = [1, '.capture/*/0/*.checkpoint.json'], resumes }: Example,
): Promise<readonly string[]> {
  const place = openPlace({ below: '/dev/shm' });
  const at = async (dir: string, command: string): Promise<{ stdout: string; stderr: string }> => {
    const run = place.exec(['bash', '-c', `cd ${place.at(dir)} || exit; ${command}`], {
      // Debian's Python has its modules.
      PATH: `${path.join(ROOT, 'bin')}:${import.meta.dirname}/fixtures:/usr/bin:${process.env['PATH']}`,
      HOME: place.dir,
      TMPDIR: place.dir,
      OMP_NUM_THREADS: '1',
      OMPI_MCA_btl: 'self,vader',
      // A killed rank leaves its shared memory there.
      OMPI_MCA_btl_vader_backing_directory: place.dir,
      OMPI_MCA_plm: 'isolated',
      OMPI_ALLOW_RUN_AS_ROOT: '1',
      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
    });
    expect(await run.status, run.stderr()).toBe(0);
    return { stdout: run.stdout(), stderr: run.stderr() };
  };
  const { before, killed, again, after } = commandsOf(name);
  const [atLeast, pattern] = killedAt;
  const stored = `ls ${place.dir}/capture-store/${name}/${pattern} 2> /dev/null | wc -l`;
  const interrupted = async (): Promise<void> => {
    await at(name, killed.replace(/sleep \d+/, `until [ $(${stored}) -ge ${atLeast} ]; do sleep 0.1; done`));
    const { stdout, stderr } = await at(name, again);
    expect(stdout + stderr).toMatch(resumes ?? /attempt 2 .*\n.*resumed from checkpoint 1-/);
    expectOutputOf(name, (await at(name, after)).stdout);
  };
  try {
    fs.cpSync(path.join(ROOT, 'examples'), place.work, { recursive: true });
    await at(name, `${shorter}\n${before}`);
    fs.cpSync(place.at(name), place.at('reference'), { recursive: true });
    await Promise.all([at('reference', reference), interrupted()]);
    const bytes = (file: string): Buffer => fs.readFileSync(place.at(file));
    return same.filter((file) => !bytes(`${name}/results/0/${file}`).equals(bytes(`reference/${file}`)));
  } finally {
    place.close();
  }
}
