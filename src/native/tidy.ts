// What capture clears away of its own: sockets, journals, temporary files. A file system that has turned read-only, or a
// directory that is gone, keeps it from that. It costs litter, and must never cost the run.

/** Runs `clear`, which deletes only what capture itself has made; if that fails, it stays. */
export function tidyUp(clear: () => void): void {
  try {
    clear();
  } catch {
    // Nobody needs to know: the next start clears away what it finds.
  }
}
