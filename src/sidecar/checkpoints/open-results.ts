// Results that the task holds open and only appends to when a checkpoint is stored: the checkpoint includes them as
// companions, because a resume continues after their present content. An open result that is written anywhere but at
// its end is never included.
import fs from 'node:fs';
import { isStateStored } from '../../model/checkpoint/lacking.ts';
import { sameContentFingerprint } from '../../model/file/file-state.ts';
import type { Generation } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { factsBeneath, openBeneath } from '../../native/files.ts';
import { FileSystems } from '../../native/mounts.ts';
import { type WritableDescriptor, writableDescriptors } from '../../native/open-files.ts';
import type { FoundFile } from '../../watch/scan.ts';
import type { Witness } from '../../watch/witness.ts';
import type { Files } from '../queue/files.ts';
import type { Unsaved } from '../queue/unsaved.ts';
import type { Needs } from '../run/context.ts';

/** A program that updates a file in place writes to its header: these first bytes must be unchanged. */
const HEAD_BYTES = 4096;
/** If more results than this are open at once, the others are only named. */
const MOST_OPEN = 100;

/** How the task writes a file, with its inode. */
type Manner = { readonly ino: string } & (
  | { readonly kind: 'appends'; readonly head: Buffer }
  /** Not only at its end. */
  | { readonly kind: 'anywhere' }
);

interface OpenResultsParts {
  readonly context: Needs<'root' | 'manifest' | 'resumed' | 'ledger'>;
  readonly unsaved: Pick<Unsaved, 'look'>;
  readonly files: Pick<Files, 'get'>;
  /** Knows the processes of the task; undefined if they cannot be seen. */
  readonly witness: Pick<Witness, 'pids'> | undefined;
  readonly restored: Generation | undefined;
}

export class OpenResults {
  readonly #parts: OpenResultsParts;
  readonly #manners = new Map<RelPath, Manner>();
  /** Of restored results as they came: the attempt that stored them only appended to them. */
  readonly #asRestored = new Map<RelPath, Manner>();
  /** The restored generation, with its open results. */
  readonly #set: Generation | undefined;
  readonly #restored: ReadonlySet<RelPath>;

  constructor(parts: OpenResultsParts) {
    this.#parts = parts;
    const { resumed, ledger } = parts.context;
    // A sidecar that replaces another one does not learn from the restore what it placed, but a record names it.
    this.#set = parts.restored ?? (resumed === undefined ? undefined : ledger.generations[0]);
    const results = this.#set?.companions.filter(({ result }) => result === true) ?? [];
    this.#restored = new Set(results.map(({ path }) => path));
    if (parts.restored === undefined) return;
    for (const { path, facts } of this.#find([...this.#restored])) {
      const head = this.#headOf(path, Math.min(facts.size, HEAD_BYTES));
      if (head !== undefined) this.#asRestored.set(path, { ino: facts.ino, kind: 'appends', head });
    }
  }

  /**
   * The results that came with the checkpoint as far as they were written then, and that the task has not continued.
   */
  unfinished(): readonly RelPath[] {
    const { context, files } = this.#parts;
    return [...this.#restored].filter((path) => {
      const fileState = files.get(path, 'result');
      return (
        (fileState === undefined || fileState.closes === 0) && factsBeneath(context.root, path) !== undefined
      );
    });
  }

  /**
   * True if the store holds, as a result, the content that came with the checkpoint, or content that was closed later.
   */
  isStored(path: RelPath): boolean {
    const stored = this.#parts.context.ledger.results.get(path);
    if (stored === undefined || this.#set === undefined) return stored !== undefined;
    const { attempt, behind = [] } = this.#set;
    const state = behind.find((one) => one.path === path);
    return state === undefined ? stored.attempt >= attempt : isStateStored(stored, state, attempt);
  }

  /**
   * The results that a set includes if it is made now. `ended`: including those that were closed for a dying process.
   */
  look(ended: boolean): readonly FoundFile[] {
    const outstanding = this.#parts.unsaved.look('result').map(({ path }) => path);
    const atEnd = ended ? [...this.#manners.keys(), ...this.#closedOnce()] : [];
    const paths = new Set([...this.unfinished(), ...outstanding, ...atEnd]);
    for (const path of this.#manners.keys()) if (!paths.has(path)) this.#manners.delete(path);
    const open = this.#find([...paths]);
    this.#learn(open.filter(({ path, facts }) => this.#manners.get(path)?.ino !== facts.ino));
    return open.filter((file) => this.#isAppendedTo(file, ended) || this.#isAsRestored(file.path));
  }

  /** Restored results whose writer may have died before anyone looked at it: it went on as the attempt before did. */
  #closedOnce(): readonly RelPath[] {
    return [...this.#asRestored.keys()].filter(
      (path) =>
        this.#parts.files.get(path, 'result')?.lastClose?.since !== undefined && !this.#manners.has(path),
    );
  }

  #find(paths: readonly RelPath[]): readonly FoundFile[] {
    const { root, manifest } = this.#parts.context;
    return paths.slice(0, MOST_OPEN).flatMap((path): FoundFile[] => {
      const facts = manifest.rolesOf(path).companion ? undefined : factsBeneath(root, path);
      return facts === undefined || facts.size === 0 ? [] : [{ path, link: false, facts }];
    });
  }

  #isAsRestored(path: RelPath): boolean {
    const inherited = this.#parts.files.get(path, 'result')?.inherited;
    const now = factsBeneath(this.#parts.context.root, path);
    if (inherited === undefined || now === undefined) return false;
    return this.#restored.has(path) && sameContentFingerprint(inherited, now);
  }

  #isAppendedTo({ path, facts }: FoundFile, ended: boolean): boolean {
    const manner = this.#manners.get(path) ?? (ended ? this.#asRestored.get(path) : undefined);
    if (manner?.ino !== facts.ino || manner.kind !== 'appends') return false;
    if (this.#headOf(path, manner.head.length)?.equals(manner.head) === true) return true;
    this.#manners.set(path, { ino: facts.ino, kind: 'anywhere' });
    return false;
  }

  /**
   * Learns how each file is written from where the task's next writes go: it is appended to if all of them go to its
   * end.
   */
  #learn(files: readonly FoundFile[]): void {
    if (files.length === 0) return;
    const byInode = new Map(files.map(({ path, facts }) => [`${facts.dev}:${facts.ino}`, { path, facts }]));
    const manners = new Map<RelPath, boolean>();
    const near = new FileSystems(this.#parts.context.root);
    for (const pid of this.#parts.witness?.pids() ?? []) {
      for (const descriptor of writableDescriptors(pid)) {
        if (near.have(pid, descriptor.info) !== true) continue;
        const file = byInode.get(inodeOf(descriptor) ?? '');
        if (file === undefined) continue;
        // The file, and its writer's position with it, may have grown since our look.
        const appends = descriptor.appends || descriptor.position >= file.facts.size;
        manners.set(file.path, appends && manners.get(file.path) !== false);
      }
    }
    for (const { path, facts } of files) {
      const appends = manners.get(path);
      const head = appends === true ? this.#headOf(path, Math.min(facts.size, HEAD_BYTES)) : undefined;
      if (head !== undefined) this.#manners.set(path, { ino: facts.ino, kind: 'appends', head });
      else if (appends === false) this.#manners.set(path, { ino: facts.ino, kind: 'anywhere' });
    }
  }

  #headOf(path: RelPath, bytes: number): Buffer | undefined {
    try {
      const fd = openBeneath(this.#parts.context.root, path);
      try {
        const head = Buffer.alloc(bytes);
        return head.subarray(0, fs.readSync(fd, head, 0, bytes, 0));
      } finally {
        fs.closeSync(fd);
      }
    } catch {
      return undefined; // gone, or not ours to read
    }
  }
}

function inodeOf({ link }: WritableDescriptor): string | undefined {
  try {
    const { dev, ino } = fs.statSync(link, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined; // closed meanwhile
  }
}
