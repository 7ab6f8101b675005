// Where inputs come from: an input that is not in the work directory is searched in the store, first under the index's
// own key. This file only finds inputs; fetch.ts downloads them. An object of capture's own is an input only if it is
// a result of this index and of the same run.
import fs from 'node:fs';
import pLimit from 'p-limit';
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { fixedPart, type Manifest } from '../model/file/manifest.ts';
import {
  bareKey,
  escapePath,
  inputKeys,
  isPlainKey,
  type KeyScope,
  pathOfKey,
  sealedEnding,
} from '../model/format/keys.ts';
import { isRecordKey, type Origin, originOf } from '../model/format/origin.ts';
import { clashesWith, outdatedPaths } from '../model/one-tree.ts';
import { encodePath, isInside, type RelPath, showPath } from '../model/path.ts';
import { roomInHeap, tooManyForHeap } from '../native/heap.ts';
import type { ObjectHead, Store } from '../store/contract/store.ts';
import { type Source, sourceOfObject } from './source.ts';

/** Concurrent requests: each is a round trip without content. */
const HEADS_AT_ONCE = 16;
/**
 * Matches that are looked up together. With at least this many, the records are read before the objects are requested.
 */
const PAGE = 1000;
/** Memory for one input that was found. */
const INPUT_BYTES = 800;

export interface InputSearch {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly manifest: Manifest;
  /** The work directory: files that are there are not searched. */
  readonly root: string;
  /** Paths that an earlier attempt's record already supplies. */
  readonly known: ReadonlySet<RelPath>;
  /** Only results of this run are inputs; undefined: results of every run (`--from` names another store). */
  readonly run: { readonly id: string | undefined } | undefined;
  /** Keys of results that records of any index name. */
  readonly recorded: () => Promise<ReadonlySet<string>>;
  readonly signal: AbortSignal;
}

interface Search extends InputSearch {
  /** True of a path that can be no file beside the known ones: it was stored before them. */
  readonly isReplaced: (path: RelPath) => boolean;
}

export interface FoundInputs {
  readonly sources: readonly Source[];
  /** Exactly named inputs that are neither in the work directory nor in the store. */
  readonly missing: readonly RelPath[];
  /** Results that are not inputs, only because another run stored them. */
  readonly ofOtherRuns: readonly OtherRunsResult[];
  /** How many of capture's own objects the patterns match. */
  readonly leftOut: number;
}

export interface OtherRunsResult {
  readonly path: RelPath;
  readonly runId: string | undefined;
}

export async function findInputs(given: InputSearch, patterns: readonly string[]): Promise<FoundInputs> {
  const { manifest, known } = given;
  const search = { ...given, isReplaced: clashesWith(known) };
  const exact = patterns.filter((pattern) => manifest.exact.inputs.includes(pattern));
  const sources = new Map<RelPath, Source>();
  const missing: RelPath[] = [];
  const ofOtherRuns = new Map<RelPath, OtherRunsResult>();
  let leftOut = 0;
  for (const path of exact) {
    if (!isWanted(search, path)) continue;
    // oxlint-disable-next-line no-await-in-loop -- a handful of names, in the order of their precedence
    const source = await findExact(search, path, ofOtherRuns);
    if (source === undefined) missing.push(path);
    else sources.set(path, source);
  }
  for (const pattern of patterns) {
    if (exact.includes(pattern)) continue;
    // oxlint-disable-next-line no-await-in-loop -- one listing after the other is kinder to the store
    const found = await findMatching(search, pattern, ofOtherRuns);
    for (const source of found.sources) if (!sources.has(source.path)) sources.set(source.path, source);
    leftOut += found.leftOut;
  }
  for (const path of sources.keys()) ofOtherRuns.delete(path);
  return { sources: [...sources.values()], missing, ofOtherRuns: [...ofOtherRuns.values()], leftOut };
}

function isWanted({ root, known, isReplaced }: Search, path: RelPath): boolean {
  return (
    !known.has(path) &&
    !isReplaced(path) &&
    fs.lstatSync(encodePath(`${root}/${path}`), { throwIfNoEntry: false }) === undefined
  );
}

function isVisible({ run }: InputSearch, { runId }: Origin): boolean {
  return run === undefined || run.id === runId;
}

async function findExact(
  search: Search,
  path: RelPath,
  ofOtherRuns: Map<RelPath, OtherRunsResult>,
): Promise<Source | undefined> {
  const { store, scope, signal } = search;
  let found: { readonly head: ObjectHead; readonly compressed: boolean } | undefined;
  const { endings = [] } = store.sealed ?? {};
  // Any keyring may open what ends in .gpg. Nobody else pays for the look: it is the last.
  const late = endings.includes('.gpg') || store.sealed === undefined ? [] : ['.gpg'];
  for (const { key, compressed } of [
    ...inputKeys(path, scope, ['', ...endings]),
    ...inputKeys(path, scope, late),
  ]) {
    // A result may have a second object in the other form: it is next.
    if (found !== undefined && !compressed) break;
    // oxlint-disable-next-line no-await-in-loop -- the first that is there wins
    const head = await store.head(key, signal);
    if (head === undefined) continue;
    const origin = originOf(key, head.meta);
    if (origin !== undefined && !isVisible(search, origin)) {
      ofOtherRuns.set(path, { path, runId: origin.runId });
      continue;
    }
    if (found === undefined || (origin !== undefined && isNewer(head, found.head)))
      found = { head, compressed };
    if (origin === undefined) break;
  }
  return found && sourceOfObject(path, found.head, found.compressed);
}

/** A dead attempt may have left a result compressed that is now stored uncompressed, or the reverse. */
function isNewer({ modifiedMs = 0 }: ObjectHead, than: ObjectHead): boolean {
  return modifiedMs >= (than.modifiedMs ?? 0);
}

/**
 * Candidates from a listing below the pattern's fixed part: the index's own form of a path comes before the plain one.
 */
async function findMatching(
  search: Search,
  pattern: string,
  ofOtherRuns: Map<RelPath, OtherRunsResult>,
): Promise<Pick<FoundInputs, 'sources' | 'leftOut'>> {
  const found = new Map<RelPath, Source & { readonly own: boolean; readonly head: ObjectHead }>();
  const most = Math.floor(roomInHeap() / INPUT_BYTES);
  let leftOut = 0;
  const take = ({ head, candidates }: FoundObject): void => {
    const origin = originOf(head.key, head.meta);
    // A result stands for the path that it was stored from; nobody means its object's name. If its key is shortened,
    // only its record knows the path: no file in the work directory may be named after a key.
    const usable = candidates.filter(
      ({ own, path }) => origin === undefined || (own && origin.kind === 'result' && origin.path === path),
    );
    if (usable.length === 0) leftOut += 1;
    for (const { path, compressed, own } of usable) {
      if (origin !== undefined && !isVisible(search, origin))
        ofOtherRuns.set(path, { path, runId: origin.runId });
      else {
        const other = found.get(path);
        if (other?.own !== true || (own && isNewer(head, other.head)))
          found.set(path, { ...sourceOfObject(path, head, compressed), own, head });
        if (found.size > most) throw tooManyForHeap(`inputs that match ${showPath(pattern)}`, most);
      }
    }
  };
  let recorded: ReadonlySet<string> | undefined;
  for await (const listed of pagesOf(search, pattern)) {
    if (listed.length === PAGE) recorded ??= await search.recorded();
    const unknown = listed.filter(
      ({ key, candidates }) => candidates.some(({ own }) => own) || recorded?.has(key) !== true,
    );
    leftOut += listed.length - unknown.length;
    for (const looked of await headsOf(search, unknown)) take(looked);
  }
  // No record says which of them is newer, so the times of the objects do.
  const ageOf = (path: RelPath): number => found.get(path)?.head.modifiedMs ?? 0;
  for (const path of outdatedPaths(found, () => ageOf)) found.delete(path);
  return { sources: [...found.values()], leftOut };
}

/** The listed matches of the pattern, {@link PAGE} at a time: there may be very many. */
async function* pagesOf(search: Search, pattern: string): AsyncGenerator<readonly Listed[]> {
  let page: Listed[] = [];
  for await (const key of keysBelow(search, fixedPart(pattern))) {
    if (isRecordKey(key)) continue;
    const usable = (opened: string): readonly Candidate[] =>
      candidatesOf(opened, search.scope).filter(
        ({ path }) => isInside(path) && search.manifest.rolesOf(path).input && isWanted(search, path),
      );
    // oxlint-disable-next-line no-await-in-loop -- gpg is asked once
    const candidates = await candidatesIn(search, key, usable);
    if (candidates.length > 0) page.push({ key, candidates });
    if (page.length < PAGE) continue;
    yield page;
    page = [];
  }
  yield page;
}

/** Keys as capture writes them, and as users upload files by hand. */
async function* keysBelow({ store, signal }: Search, dir: string): AsyncGenerator<string> {
  for (const prefix of new Set([escapePath(dir), ...(isPlainKey(dir) ? [dir] : [])]))
    for await (const { key } of store.list(prefix, signal)) yield key;
}

interface Candidate {
  readonly path: RelPath;
  readonly compressed: boolean;
  /** Belongs to this index alone. */
  readonly own: boolean;
}

interface Listed {
  readonly key: string;
  readonly candidates: readonly Candidate[];
}

interface FoundObject {
  readonly head: ObjectHead;
  readonly candidates: readonly Candidate[];
}

/** Requests the metadata, which a listing lacks. Objects that were deleted in between are left out. */
async function headsOf(search: Search, listed: readonly Listed[]): Promise<readonly FoundObject[]> {
  const heads = await pLimit(HEADS_AT_ONCE).map(listed, async ({ key, candidates }) => ({
    head: await headOf(search, key),
    candidates,
  }));
  return heads.flatMap(({ head, candidates }) => (head === undefined ? [] : [{ head, candidates }]));
}

/**
 * Undefined only if the object was deleted since it was listed. Anything on the way may answer 404, and the task would
 * run without its input.
 */
async function headOf({ store, signal }: Search, key: string): Promise<ObjectHead | undefined> {
  const head = await store.head(key, signal);
  if (head !== undefined || !(await isListed(store, key, signal))) return head;
  const again = await store.head(key, signal);
  if (again !== undefined) return again;
  const what = `${store.url} lists the input ${showPath(key)}, and says that it does not exist`;
  throw new CaptureError(EXIT.unavailable, what, {
    hint: 'check what stands between here and the store (gateway, cache), or delete the object',
  });
}

/** A key comes before all keys that it begins. */
async function isListed(store: Store, key: string, signal: AbortSignal): Promise<boolean> {
  for await (const first of store.list(key, signal)) return first.key === key;
  return false;
}

/** An object that can be opened is taken for the file that it holds, and else for one of its own name. */
async function candidatesIn(
  { store: { sealed }, signal }: Search,
  key: string,
  usable: (opened: string) => readonly Candidate[],
): Promise<readonly Candidate[]> {
  const ending = sealedEnding(key);
  if (ending === undefined || sealed === undefined) return usable(key);
  if (sealed.endings.includes(ending)) return usable(bareKey(key));
  const opened = ending === '.gpg' ? usable(bareKey(key)) : [];
  return opened.length > 0 && (await sealed.opensGpg(signal)) ? opened : usable(key);
}

function candidatesOf(opened: string, { index }: KeyScope): readonly Candidate[] {
  const compressed = opened.endsWith('.zst');
  const bare = compressed ? opened.slice(0, -'.zst'.length) : opened;
  const own = bare.endsWith(`.${index}`) ? bare.slice(0, -`.${index}`.length) : undefined;
  return [
    ...(own === undefined ? [] : [{ path: pathOfKey(own), compressed, own: true }]),
    { path: pathOfKey(opened), compressed: false, own: false },
  ];
}
