// Files of /proc and /sys as another machine has them. Only for what reads them by node:fs at once, in this process:
// native code, child processes and all that waits see the real ones.
import mockFs from 'mock-fs';

/** What `read` returns where these files are there, and no others. */
export function withFilesAlone<T>(files: Readonly<Record<string, string>>, read: () => T): T {
  mockFs(files, { createCwd: false, createTmp: false });
  try {
    return read();
  } finally {
    mockFs.restore();
  }
}
