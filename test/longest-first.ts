// The order of the test files: those that take a minute or more begin first. Otherwise, where no times of an earlier run
// are known, the last of them runs alone at the end while the other cores wait.
import path from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const LONGEST = [
  // npm test
  'simulate/simulate',
  'native/binary',
  'native/heap',
  'array/rm/rm',
  'launch/launch',
  'array/gather/gather',
  // npm run test:slow
  'e2e/exit-file',
  'e2e/security',
  'e2e/outages',
  'bench/bench',
  'e2e/handoff',
  'e2e/s3',
  'e2e/notify',
  'e2e/companions',
  'e2e/fenced-orphan',
  // npm run test:real
  'real/resumed-within',
  'real/programs',
  'real/slurm',
  'real/queue-deaths',
  'real/outage',
  'real/standalone',
  'real/queue',
  'real/storm',
  'real/queue-refused',
  'real/install',
  'real/gridengine',
].map((name) => path.resolve(import.meta.dirname, `${name}.test.ts`));

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- the sequencer's own method
    const sorted = await super.sort(files);
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = LONGEST.indexOf(moduleId);
      return rank === -1 ? LONGEST.length : rank;
    };
    return sorted.toSorted((one, other) => rankOf(one) - rankOf(other));
  }
}
