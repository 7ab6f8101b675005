// Declared files whose content the store does not have: closed and being sent, or still open. Looks only when asked, at
// a checkpoint or a flush, and only at files that can be unsaved, never at the whole work directory.
import { MOST_BEHIND } from '../../model/checkpoint/lacking.ts';
import {
  type Close,
  type FileRole,
  type Fingerprint,
  isInOrder,
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

export interface UnsavedFile {
  readonly path: RelPath;
  /** Some process has it open for writing, or has changed it and not closed it since. */
  readonly open: boolean;
}

type Written = Pick<Fingerprint, 'size' | 'mtimeNs'>;

type UnsavedContext = Needs<'root' | 'manifest' | 'now' | 'resumed' | 'ledger'>;

export interface UnsavedSources {
  readonly files: Pick<Files, 'get' | 'outstanding' | 'recent'>;
  readonly watcher: Pick<Watcher, 'unclosed'>;
  readonly staged: Pick<Staged, 'objects' | 'of'>;
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

  /**
   * Results that a set would be ahead of if it were committed now. `upTo`: the number of the newest close of its
   * members, among all closes; undefined: unknown.
   */
  behind(upTo: number | undefined): readonly Behind[] {
    const { files, staged } = this.#sources;
    const behind = new Map<RelPath, Behind>();
    // A walk knows no order: a file that was written before the members may have been closed after them, for a dying
    // process. What was written after the close belongs to a later close, which nothing has followed yet.
    const isFollowed = (state: Written, lastClose: Close | undefined): boolean => {
      const close = contentClose(this.#context, lastClose, state);
      return close !== undefined && isInOrder(close.how) && close.seq < (upTo ?? 0);
    };
    const add = (
      path: RelPath,
      state: Written & { push?: string },
      open: boolean,
      followed: boolean,
    ): void => {
      const { size, mtimeNs } = state;
      const over = this.#pushesBefore(path, open, state.push);
      const more = { ...(over === undefined ? {} : { over }), ...(followed ? { followed } : {}) };
      behind.set(path, { path, open, size, mtimeNs, ...more });
    };
    for (const [path, { file, close }] of staged.objects())
      if (isFollowed(file, close)) add(path, file, false, true);
    for (const { path, open } of this.look('result')) {
      const now = factsBeneath(this.#context.root, path);
      if (now === undefined) continue;
      const followed = !open && isFollowed(now, files.get(path, 'result')?.lastClose);
      // An empty file is worth something only if it is whole.
      if (now.size === 0 && !followed) continue;
      add(path, now, open, followed);
    }
    return [...behind.values()].slice(0, MOST_BEHIND);
  }

  /** As {@link Behind.over}: what an older close, or a dead sidecar, has sent may come under the name yet. */
  #pushesBefore(path: RelPath, open: boolean, own: string | undefined): string[] | undefined {
    const { resumed, ledger } = this.#context;
    const { files, staged } = this.#sources;
    const { pushing = false, closedAgain = false, failedTries = 0 } = files.get(path, 'result') ?? {};
    const isOlderSent = (pushing && (closedAgain || open)) || failedTries > 0;
    if (resumed !== undefined || isOlderSent) return undefined;
    const named = ledger.results.get(path);
    const older = [...(named === undefined ? [] : [named]), ...staged.of(path).map(({ file }) => file)];
    return older.map(({ push }) => push).filter((push) => push !== own);
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
