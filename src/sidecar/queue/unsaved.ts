// Declared files whose content the store does not have: closed and being sent, or still open. Looks only when asked, at
// a checkpoint or a flush, and only at files that can be unsaved, never at the whole work directory.
import { MOST_BEHIND } from '../../model/checkpoint/lacking.ts';
import {
  type Close,
  type FileRole,
  type FileState,
  type Fingerprint,
  isInOrder,
  newFileState,
  sameContentFingerprint,
} from '../../model/file/file-state.ts';
import { rolesToStore } from '../../model/file/manifest.ts';
import type { Behind } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { factsBeneath, writerOf } from '../../native/files.ts';
import type { Watcher } from '../../watch/watching.ts';
import { contentClose } from '../run/content-close.ts';
import type { Needs } from '../run/context.ts';
import type { Files } from './files.ts';
import type { Staged } from './staged.ts';
import type { Unanswered } from './unanswered.ts';

export interface UnsavedFile {
  readonly path: RelPath;
  /** Some process has it open for writing, or has changed it and not closed it since. */
  readonly open: boolean;
}

/** How the members of a set were closed. */
export interface MembersClosed {
  /** The number of their newest close, among all closes; undefined: unknown. */
  readonly upTo?: number | undefined;
  /** No dying process has made any of these closes. */
  readonly isProven: boolean;
}

type Written = Pick<Fingerprint, 'size' | 'mtimeNs'>;

type UnsavedContext = Needs<'root' | 'manifest' | 'now' | 'resumed' | 'ledger'>;

export interface UnsavedSources {
  readonly files: Pick<Files, 'get' | 'outstanding' | 'recent'>;
  readonly watcher: Pick<Watcher, 'unclosed'>;
  readonly staged: Pick<Staged, 'objects' | 'of'>;
  readonly unanswered: Pick<Unanswered, 'olderThan'>;
}

export class Unsaved {
  readonly #context: UnsavedContext;
  readonly #sources: UnsavedSources;

  constructor(context: UnsavedContext, sources: UnsavedSources) {
    this.#context = context;
    this.#sources = sources;
  }

  /** The unsaved files of the role in their current state, each once. */
  look(role: FileRole): readonly UnsavedFile[] {
    const { root, manifest } = this.#context;
    const { files, watcher } = this.#sources;
    const found = new Map<RelPath, boolean>();
    for (const { path, blocked } of files.outstanding(role)) found.set(path, blocked);
    for (const path of watcher.unclosed()) {
      if (found.has(path) || !rolesToStore(manifest.rolesOf(path)).includes(role)) continue;
      if ((factsBeneath(root, path)?.size ?? 0) > 0) found.set(path, true);
    }
    for (const path of files.recent(role))
      if (!found.has(path) && this.#isChanged(path, role)) found.set(path, this.#hasWriter(path));
    return [...found].map(([path, open]) => ({ path, open }));
  }

  /** Results that a set would be ahead of if it were committed now. */
  behind({ upTo, isProven }: MembersClosed): readonly Behind[] {
    const { files, staged } = this.#sources;
    const stateOf = (path: RelPath): FileState => files.get(path, 'result') ?? newFileState(path, 'result');
    const behind = new Map<RelPath, Behind>();
    // A walk knows no order: a file that was written before the members may have been closed after them, for a dying
    // process. What was written after the close belongs to a later close, which nothing has followed yet.
    const isFollowed = (state: Written, lastClose: Close | undefined): boolean => {
      const close = contentClose(this.#context, lastClose, state);
      return close !== undefined && isInOrder(close.how) && close.seq < (upTo ?? 0);
    };
    const add = (
      path: RelPath,
      state: Fingerprint,
      own: string | undefined,
      is: { open: boolean; followed: boolean },
    ): void => {
      const { size, mtimeNs } = state;
      const { over, unsure } = this.#pushesBefore(path, state, own);
      const more = { ...(unsure ? { unsure } : {}), ...(is.followed ? { followed: true } : {}) };
      behind.set(path, { path, open: is.open, size, mtimeNs, over, ...more });
    };
    for (const [path, { file, fingerprint, close }] of staged.objects()) {
      const followed = isFollowed(fingerprint, close);
      // In what only a scan has found after a death, nobody knows what was written before what.
      const isUnknown = upTo === undefined && !isProven;
      const open = !followed && (isUnknown || wasOpen(stateOf(path), upTo));
      const isLater = upTo !== undefined && beganAfter(close, upTo);
      if (followed || open || !isLater) add(path, fingerprint, file.push, { open, followed });
    }
    for (const { path, open: isOpen } of this.look('result')) {
      const open = isOpen || wasOpen(stateOf(path), upTo);
      const now = factsBeneath(this.#context.root, path);
      if (now === undefined) continue;
      const followed = !open && isFollowed(now, stateOf(path).lastClose);
      // An empty file is worth something only if it is whole.
      if (now.size === 0 && !followed) continue;
      add(path, now, undefined, { open, followed });
    }
    return [...behind.values()].slice(0, MOST_BEHIND);
  }

  /** As in {@link Behind}. `own`: the push of this state. */
  #pushesBefore(
    path: RelPath,
    state: Fingerprint,
    own: string | undefined,
  ): { readonly over: string[]; readonly unsure: boolean } {
    const { resumed, ledger } = this.#context;
    const { staged, unanswered } = this.#sources;
    const named = ledger.results.get(path);
    const stored = [...(named === undefined ? [] : [named]), ...staged.of(path).map(({ file }) => file)];
    const { pushes, isMore } = unanswered.olderThan(path, state);
    const over = [...stored.map(({ push }) => push).filter((push) => push !== own), ...pushes];
    return { over, unsure: isMore || resumed !== undefined };
  }

  /** True if it was written, without a close, since its content was stored or since before the task started. */
  #isChanged(path: RelPath, role: FileRole): boolean {
    const fileState = this.#sources.files.get(path, role);
    const known = fileState?.inherited ?? fileState?.durable?.fingerprint;
    const now = factsBeneath(this.#context.root, path);
    return known !== undefined && now !== undefined && !sameContentFingerprint(known, now);
  }

  #hasWriter(path: RelPath): boolean {
    try {
      return writerOf(this.#context.root, path) !== 'none';
    } catch {
      return false; // gone, or no regular file any more
    }
  }
}

/**
 * True if the file may have been open when the close with that number was made, as its name was there and its first
 * close came later: the kernel closes the files of a process that dies.
 */
function wasOpen({ lastClose }: Pick<FileState, 'lastClose'>, upTo: number | undefined): boolean {
  if (lastClose?.since === undefined || upTo === undefined) return false;
  return lastClose.since < upTo && upTo < lastClose.seq;
}

/**
 * True if all of the content came after the close with that number. What was opened again may hold older content, and what
 * only a scan has seen may be older. Undefined: it was there before the task, which has not closed it.
 */
function beganAfter(close: Close | undefined, upTo: number): boolean {
  if (close === undefined) return true;
  return close.how === 'close' ? (close.since ?? -1) >= upTo : isInOrder(close.how) && close.seq > upTo;
}
