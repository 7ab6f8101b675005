// Declared files with content that the store does not have: closed and on its way, or still open. Looks only when
// asked, at a checkpoint or a flush, and only at the files that can be unsaved, never at the whole work directory.
import { MOST_BEHIND } from '../../model/checkpoint/lacking.ts';
import { type FileRole, sameContentFingerprint } from '../../model/file/file-state.ts';
import { rolesToStore } from '../../model/file/manifest.ts';
import type { Behind } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { factsBeneath, writerOf } from '../../native/files.ts';
import type { Watcher } from '../../watch/watching.ts';
import type { Needs } from '../run/context.ts';
import type { Files } from './files.ts';

export interface UnsavedFile {
  readonly path: RelPath;
  /** Somebody has it open for writing, or has changed it and not closed it since. */
  readonly open: boolean;
}

export interface UnsavedSources {
  readonly files: Pick<Files, 'get' | 'outstanding' | 'recent' | 'checkpointAtMs'>;
  readonly watcher: Pick<Watcher, 'unclosed'>;
}

export class Unsaved {
  readonly #context: Needs<'root' | 'manifest' | 'ledger' | 'settings'>;
  readonly #sources: UnsavedSources;

  constructor(context: Needs<'root' | 'manifest' | 'ledger' | 'settings'>, sources: UnsavedSources) {
    this.#context = context;
    this.#sources = sources;
  }

  /** When a checkpoint was last closed. A set of companions alone is of the moment at which they are captured. */
  get checkpointAtMs(): number {
    const { checkpoints, companions } = this.#context.settings.manifest;
    return checkpoints.length === 0 && companions.length > 0 ? Infinity : this.#sources.files.checkpointAtMs;
  }

  /** Files of the role as they are now, each once. */
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

  /** Results that a set is ahead of if it is committed now. */
  behind(): readonly Behind[] {
    const { results } = this.#context.ledger;
    return this.look('result')
      .slice(0, MOST_BEHIND)
      .map(({ path, open }) => {
        const push = results.get(path)?.push;
        return { path, open, ...(push === undefined ? {} : { push }) };
      });
  }

  /** Written, without a close, since its content was stored or since before the task started. */
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
