// Results that the task holds open and only appends to: a checkpoint takes them along as companions, for a resume goes
// on behind what they hold. What is written anywhere else than at its end is never taken for one of these.
import fs from 'node:fs';
import { sameContentFingerprint } from '../../core/fingerprint.ts';
import type { RelPath } from '../../core/path.ts';
import type { Generation } from '../../core/records.ts';
import { openBeneath } from '../../native/files.ts';
import { writableDescriptors, type WritableDescriptor } from '../../native/open-files.ts';
import type { FoundFile } from '../../watch/watcher.ts';
import type { Context } from '../context.ts';
import type { Files } from '../files/files.ts';
import type { Unsaved } from '../files/unsaved.ts';
import { statMember } from './members.ts';

/** A program that updates a file in place writes to its header: these first bytes must be as they were. */
const HEAD_BYTES = 4096;
/** Of more results that are open at once the others are only named. */
const MOST_OPEN = 100;

/** How the task writes a file, by its inode. */
type Manner = { readonly ino: string } & (
  | { readonly kind: 'appends'; readonly head: Buffer }
  /** Not only at its end. */
  | { readonly kind: 'anywhere' }
);

export interface OpenResultsParts {
  readonly context: Pick<Context, 'root' | 'manifest' | 'resumed' | 'ledger'>;
  readonly unsaved: () => Pick<Unsaved, 'look'>;
  readonly files: () => Pick<Files, 'get'>;
  /** Processes of the task; none where nobody can see them. */
  readonly pids: () => readonly number[];
  readonly restored: Generation | undefined;
}

export class OpenResults {
  readonly #parts: OpenResultsParts;
  readonly #manners = new Map<RelPath, Manner>();
  readonly #restored: ReadonlySet<RelPath>;

  constructor(parts: OpenResultsParts) {
    this.#parts = parts;
    const { resumed, ledger } = parts.context;
    // A sidecar that replaces another one: nobody tells it what was restored, but a record names it.
    const before = parts.restored ?? (resumed === undefined ? undefined : ledger.generations[0]);
    const open = before?.companions.filter(({ result }) => result === true) ?? [];
    this.#restored = new Set(open.map(({ path }) => path));
  }

  /** Those that came with the checkpoint, still stand there, and that the task has not closed since. */
  untouched(): readonly RelPath[] {
    const { context, files } = this.#parts;
    return [...this.#restored].filter((path) => {
      const track = files().get(path, 'result');
      return (track === undefined || track.closes === 0) && statMember(context.root, path) !== undefined;
    });
  }

  /** What a set that is made now takes along. `ended`: also what the death of its writer has closed. */
  look(ended: boolean): readonly FoundFile[] {
    const { context, unsaved } = this.#parts;
    const untouched = new Set(this.untouched());
    const open = unsaved()
      .look('result')
      .map(({ path }) => path);
    const paths = new Set([...untouched, ...open, ...(ended ? this.#manners.keys() : [])]);
    for (const path of this.#manners.keys()) if (!paths.has(path)) this.#manners.delete(path);
    const found = [...paths].slice(0, MOST_OPEN).flatMap((path): FoundFile[] => {
      const facts = context.manifest.rolesOf(path).companion ? undefined : statMember(context.root, path);
      return facts === undefined || facts.size === 0 ? [] : [{ path, link: false, facts }];
    });
    this.#learn(found.filter(({ path, facts }) => this.#manners.get(path)?.ino !== facts.ino));
    return found.filter((file) => this.#isAppendedTo(file) || this.#isAsRestored(file));
  }

  #isAsRestored({ path, facts }: FoundFile): boolean {
    const inherited = this.#parts.files().get(path, 'result')?.inherited;
    return this.#restored.has(path) && inherited !== undefined && sameContentFingerprint(inherited, facts);
  }

  #isAppendedTo({ path, facts }: FoundFile): boolean {
    const manner = this.#manners.get(path);
    if (manner?.ino !== facts.ino || manner.kind !== 'appends') return false;
    if (this.#headOf(path, manner.head.length)?.equals(manner.head) === true) return true;
    this.#manners.set(path, { ino: facts.ino, kind: 'anywhere' });
    return false;
  }

  /** From the places where the task's next writes go: it appends if each of them is at the end. */
  #learn(files: readonly FoundFile[]): void {
    if (files.length === 0) return;
    const byInode = new Map(files.map(({ path, facts }) => [`${facts.dev}:${facts.ino}`, { path, facts }]));
    const manners = new Map<RelPath, boolean>();
    for (const pid of this.#parts.pids()) {
      for (const descriptor of writableDescriptors(pid)) {
        const file = byInode.get(inodeOf(descriptor) ?? '');
        if (file === undefined) continue;
        // The file may have grown since it was looked at, and its writer's place with it.
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
