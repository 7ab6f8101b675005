import { defineConfig } from 'vitest/config';

export default defineConfig({
  define: { CAPTURE_VERSION: JSON.stringify('0.0.0-test') },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/real/**'],
    // Real processes, signals and servers on two cores: more files at once only adds noise.
    maxWorkers: 2,
    pool: 'forks',
    // Bounds are for hangs. In CI other tenants can starve a process past one: once more, then it is a failure.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    retry: process.env['CI'] === 'true' ? 1 : 0,
  },
});
