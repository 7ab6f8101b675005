// The order of the test files: those that take a minute or more begin first. Otherwise, where no times of an earlier run
// are known, the last of them runs alone at the end while the other cores wait.
import path from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const LONGEST = [
  // npm test
  'simulate/simulate',
  'e2e/array',
  'array/rm/rm',
  'native/heap',
  'many/command',
  'store/s3/s3',
  'launch/signals',
  'native/binary',
  // npm run test:slow
  'e2e/named-by-record',
  'e2e/exit-file',
  'e2e/outages',
  'e2e/security',
  'bench/bench',
  'e2e/handoff',
  'e2e/s3',
  'e2e/open-results',
  'e2e/checkpoint-bound',
  'e2e/lives',
  'array/gather/killed',
  'e2e/fenced-orphan',
  'e2e/companions',
  // npm run test:real
  'real/resumed-within',
  'real/sftp',
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
