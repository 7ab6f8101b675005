// The real-world tests: test/real/run.sh starts what they need, then runs them with this configuration.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  define: {
    CAPTURE_VERSION: JSON.stringify('0.0.0-test'),
    CAPTURE_ROOT: JSON.stringify(import.meta.dirname),
  },
  test: {
    include: ['test/real/**/*.test.ts'],
    globalSetup: ['test/real/bucket.ts'],
    // A computation and an object store share the cores: a second test file at once only adds noise.
    fileParallelism: false,
    pool: 'forks',
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
