// The tests that need nothing but this machine, in two parts: `npm test` (quick) answers in some eight minutes, `npm run
// test:slow` takes what takes its time. By its file each test is found without a part: npx vitest run test/e2e/flush.test.ts.
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/longest-first.ts';

/** Whole runs that a change of any line should see. The others wait for outages, deaths, notices and timers. */
const QUICK_RUNS = [
  'array',
  'companions-s3',
  'defaults',
  'early-sidecar',
  'flush',
  'names',
  'no-md5',
  'priority',
  'resume',
  'start',
  'submissions',
  'table',
  'unread',
  'without-optional',
].map((name) => `test/e2e/${name}.test.ts`);

/** Of the other folders: the bench, the demo, all manifests and engines as whole runs, 200,000 files, 10,000 indices, twenty deaths. */
const SLOW = [
  'test/array/gather/killed.test.ts',
  'test/array/scale.test.ts',
  'test/bench/bench.test.ts',
  'test/examples/engines.test.ts',
  'test/examples/healthy.test.ts',
  'test/examples/resumed.test.ts',
  'test/watch/burst.test.ts',
];

export default defineConfig({
  define: {
    CAPTURE_VERSION: JSON.stringify('0.0.0-test'),
    CAPTURE_ROOT: JSON.stringify(import.meta.dirname),
  },
  test: {
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    globalSetup: ['test/hung-files.ts'],
    setupFiles: ['test/process-title.ts'],
    // Bounds are for hangs. No test is tried again: one that fails now and then shows a race, in it or in capture.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'quick',
          include: ['test/*.test.ts', 'test/!(e2e|real)/**/*.test.ts', ...QUICK_RUNS],
          exclude: SLOW,
          // For two cores: a third of their time the tests wait.
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'slow',
          include: ['test/e2e/**/*.test.ts', ...SLOW],
          exclude: QUICK_RUNS,
          // These wait for most of it.
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
