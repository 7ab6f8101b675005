// The directory that the task works in, held open: what is done in it is done there, whatever the task renames. Who
// opens it closes it.

/** The work directory: open, and its absolute path. */
export interface WorkDir {
  readonly fd: number;
  readonly path: string;
}
