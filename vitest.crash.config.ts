// The crash-point sweep alone (`npm run test:crash`): it needs sshd. A part of the real-world tests, too.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  define: {
    CAPTURE_VERSION: JSON.stringify('0.0.0-test'),
    CAPTURE_ROOT: JSON.stringify(import.meta.dirname),
  },
  test: { include: ['test/real/crash/**/*.test.ts'], pool: 'forks' },
});
