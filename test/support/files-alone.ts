// Files of /proc and /sys as another machine has them. Only code that reads them synchronously through node:fs in this
// process sees them: native code, child processes and asynchronous calls see the real ones.
import mockFs from 'mock-fs';

/** The result of `read` if these files exist, and no others. */
export function withFilesAlone<T>(files: Readonly<Record<string, string>>, read: () => T): T {
  mockFs(files, { createCwd: false, createTmp: false });
  try {
    return read();
  } finally {
    mockFs.restore();
  }
}
