// What stands under a result's key need not be what its record says: an attempt may die between a push and the
// record of it, or only stall, and wake up when a later one has pushed the same key. Looks at the push ids, and
// never says that all is stored when it could not look.
import { reasonOf } from '../../core/errors.ts';
import type { History } from '../../core/history.ts';
import { createLimit } from '../../core/limit.ts';
import { showPath } from '../../core/path.ts';
import { isLast, type LeftFile, type StoredFile } from '../../core/records.ts';
import type { ObjectMeta, Store } from '../../store/store.ts';
import type { Context } from '../context.ts';
import type { Files } from './files.ts';

/** A look costs a round trip and no bytes. */
const LOOKS_AT_ONCE = 16;

/** True when an earlier attempt ended without a word: it may be dead, or only stalled. */
export function mayBeOverwritten({ attempts }: History): boolean {
  return attempts.some(({ kind }) => !isLast(kind));
}

/** True when the object of a result is no longer the one that was pushed. */
export async function isOverwritten({ store, signal }: Context, { key, push }: StoredFile): Promise<boolean> {
  return (await store.head(key, signal))?.meta['push'] !== push;
}

/** What a push has written beside the bytes; the md5 is missing where it was not known before they left. */
export type Standing = Omit<StoredFile, 'md5'> & Partial<Pick<StoredFile, 'md5'>>;

/** The object that stands under the key of `file`; `file` itself when it is the one of the record. */
export async function standing(
  store: Store,
  file: StoredFile,
  signal: AbortSignal,
): Promise<Standing | undefined> {
  const head = await store.head(file.key, signal);
  if (head === undefined) return undefined;
  return head.meta['push'] === file.push ? file : { ...file, md5: undefined, ...factsOfMeta(head.meta) };
}

function factsOfMeta(meta: ObjectMeta): Partial<StoredFile> {
  const { push, md5, size = '', mtime: mtimeNs = '', mode = '' } = meta;
  return {
    kind: meta['link'] === '1' ? 'link' : 'file',
    ...(push === undefined ? {} : { push }),
    ...(md5 === undefined ? {} : { md5 }),
    ...(/^\d+$/.test(size) ? { size: Number(size) } : {}),
    ...(/^-?\d+$/.test(mtimeNs) ? { mtimeNs } : {}),
    ...(/^[0-7]{1,4}$/.test(mode) ? { mode: Number.parseInt(mode, 8) } : {}),
  };
}

/**
 * Before `done`: pushes again what was replaced since this run pushed it, and notes as they stand results that
 * an earlier attempt had pushed and not recorded. Resolves to what could not be.
 */
export async function pushOverwritten(
  context: Context,
  files: Files,
  deadline: AbortSignal,
): Promise<readonly LeftFile[]> {
  const { history, ledger, baselines, log, store, signal } = context;
  if (!mayBeOverwritten(history)) return [];
  const left: LeftFile[] = [];
  const again: StoredFile[] = [];
  const look = async (file: StoredFile): Promise<void> => {
    try {
      const there = await standing(store, file, signal);
      if (there === file) return;
      if (files.get(file.path, 'result')?.durable !== undefined) again.push(file);
      else if (there?.md5 !== undefined) ledger.noteResult({ ...there, md5: there.md5 });
    } catch (error) {
      left.push({ path: file.path, why: `nobody knows whether it was replaced: ${reasonOf(error)}` });
    }
  };
  const limit = createLimit(LOOKS_AT_ONCE);
  await Promise.all([...ledger.results.values()].map((file) => limit(() => look(file))));
  for (const { path } of again) {
    log.warn(`${showPath(path)} was replaced in the store by an earlier attempt: it is pushed again`);
    baselines.delete(path);
    files.want(path, 'result');
  }
  await files.settled(deadline);
  for (const { path, push } of again) {
    if (ledger.results.get(path)?.push !== push) continue;
    left.push({ path, why: 'an earlier attempt replaced it in the store, and it is not here any more' });
  }
  return left;
}
