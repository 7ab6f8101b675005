import { defineConfig } from 'vitest/config';

export default defineConfig({
  define: { CAPTURE_VERSION: JSON.stringify('0.0.0-test') },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/real/**'],
    // Real processes, signals and servers on two cores: more files at once only adds noise.
    maxWorkers: 2,
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
