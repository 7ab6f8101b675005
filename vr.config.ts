// The real-world tests: test/real/run.sh starts what they need, then runs them with this configuration.
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/longest-first.ts';

const CRASH = 'test/real/crash/*.test.ts';

export default defineConfig({
  define: {
    CAPTURE_VERSION: JSON.stringify('0.0.0-test'),
    CAPTURE_ROOT: JSON.stringify(import.meta.dirname),
  },
  test: {

    setupFiles: ['test/process-title.ts'],
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    testTimeout: 180_000,
    hookTimeout: 180_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'programs',
          include: ['test/real/**/*.test.ts'],
          exclude: [CRASH],
          // They wait for daemons and timers for most of their time.
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        // The sweeps fill all cores by themselves.
        test: { name: 'crash', include: [CRASH], maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
    ],
  },
});
