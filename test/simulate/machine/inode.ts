// Inodes and their names. A name (dentry) outlives its link: if a file is closed after its name was unlinked or
// replaced, the directory still gets the event, under the last name of the file.

/** A watch on a directory by an instance of inotify. */
export interface Watching {
  readonly instance: {
    queue(event: { watch: number; mask: number; cookie: number; name: string }): void;
    remove(number: number): boolean;
  };
  readonly number: number;
  mask: number;
}

export interface Dentry {
  parent: Inode;
  name: string;
  readonly inode: Inode;
  isLinked: boolean;
}

const EMPTY = Buffer.alloc(0);

export type Kind = 'file' | 'directory' | 'link' | 'socket';

export class Inode {
  readonly ino: number;
  readonly kind: Kind;
  mode: number;
  data: Buffer = EMPTY;
  /** The target of a symbolic link. */
  target = '';
  /** The entries of a directory. */
  readonly entries: Map<string, Dentry>;
  /** The only name of a directory. */
  self: Dentry | undefined;
  links = 0;
  mtimeNs: bigint;
  ctimeNs: bigint;
  readonly bornNs: bigint;
  /** Descriptions that are open for writing (i_writecount). */
  writers = 0;
  readonly watches = new Set<Watching>();
  lockedBy: object | undefined;

  constructor(ino: number, kind: Kind, mode: number, nowNs: bigint) {
    this.ino = ino;
    this.kind = kind;
    this.mode = mode;
    this.entries = new Map();
    this.mtimeNs = nowNs;
    this.ctimeNs = nowNs;
    this.bornNs = nowNs;
  }

  get size(): number {
    return this.kind === 'link' ? this.target.length : this.kind === 'directory' ? 4096 : this.data.length;
  }
}

/** The absolute path; for a name that is gone, as in proc_pid_fd(5). */
export function pathOf(dentry: Dentry | undefined): string {
  if (dentry === undefined) return '/';
  const above = pathOf(dentry.parent.self);
  const path = above === '/' ? `/${dentry.name}` : `${above.replace(/ \(deleted\)$/, '')}/${dentry.name}`;
  return dentry.isLinked && !above.endsWith(' (deleted)') ? path : `${path} (deleted)`;
}
