// The one failure that a body can end with by the task's own doing. In a file of its own, because both sides
// of the thread border throw it.
import { showPath, type RelPath } from '../model/path.ts';

/** The file was changed while it was being read: what was read so far is of no single moment. */
export class SnapshotMoved extends Error {
  /** A writer has it open: its next close will tell. Without one, trying again is the only way. */
  readonly hasWriter: boolean;

  constructor(path: RelPath, hasWriter: boolean) {
    super(`${showPath(path)} was changed while it was being read`);
    this.name = 'SnapshotMoved';
    this.hasWriter = hasWriter;
  }
}
