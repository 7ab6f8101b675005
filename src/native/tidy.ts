// Clears away what capture itself has made: sockets, journals, temporary files. If the file system has become
// read-only, or a directory is gone, it stays: litter must never cost the run.

/** Runs `clear`, which may delete only what capture itself has made. Ignores errors. */
export function tidyUp(clear: () => void): void {
  try {
    clear();
  } catch {
    // The next start clears away what it finds.
  }
}
