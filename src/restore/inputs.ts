// Where the inputs come from: an input that is not in the work directory is looked for in the store, the index's own
// first. This only finds inputs; fetch.ts brings them. What capture itself has stored is an input only if it is a
// result of this index and of the same run.
import fs from 'node:fs';
import pLimit from 'p-limit';
import { fixedPart, type Manifest } from '../model/file/manifest.ts';
import { escapePath, inputKeys, isPlainKey, type KeyScope, pathOfKey } from '../model/format/keys.ts';
import { isRecordKey, type Origin, originOf } from '../model/format/origin.ts';
import { encodePath, isInside, type RelPath, showPath } from '../model/path.ts';
import { roomInHeap, tooMany } from '../native/heap.ts';
import type { ObjectHead, Store } from '../store/contract/store.ts';
import { type Source, sourceOfObject } from './source.ts';

/** Requests under way at once: each is a round trip and no bytes. */
const HEADS_AT_ONCE = 16;
/** So many matches are looked at together. If there are that many, the records are asked before the objects. */
const PAGE = 1000;
/** What is kept of an input that is found. */
const INPUT_BYTES = 800;

export interface InputSearch {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly manifest: Manifest;
  /** The work directory: what is there is not looked for. */
  readonly root: string;
  /** Paths that an earlier attempt's record already supplies. */
  readonly known: ReadonlySet<RelPath>;
  /** Only results of this run are inputs; undefined: those of every run (`--from` names another store). */
  readonly run: { readonly id: string | undefined } | undefined;
  /** Keys of results that records of any index name. */
  readonly recorded: () => Promise<ReadonlySet<string>>;
  readonly signal: AbortSignal;
}

export interface FoundInputs {
  readonly sources: readonly Source[];
  /** Exactly named inputs that are neither here nor in the store. */
  readonly missing: readonly RelPath[];
  /** Results that are no inputs only because they are of another run. */
  readonly ofOtherRuns: readonly OtherRunsResult[];
  /** How many of capture's own objects the patterns match. */
  readonly leftOut: number;
}

export interface OtherRunsResult {
  readonly path: RelPath;
  readonly runId: string | undefined;
}

export async function findInputs(search: InputSearch, patterns: readonly string[]): Promise<FoundInputs> {
  const { manifest } = search;
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

function isWanted({ root, known }: InputSearch, path: RelPath): boolean {
  return (
    !known.has(path) && fs.lstatSync(encodePath(`${root}/${path}`), { throwIfNoEntry: false }) === undefined
  );
}

function isVisible({ run }: InputSearch, { runId }: Origin): boolean {
  return run === undefined || run.id === runId;
}

async function findExact(
  search: InputSearch,
  path: RelPath,
  ofOtherRuns: Map<RelPath, OtherRunsResult>,
): Promise<Source | undefined> {
  const { store, scope, signal } = search;
  let found: { readonly head: ObjectHead; readonly compressed: boolean } | undefined;
  for (const { key, compressed } of inputKeys(path, scope)) {
    // Of a result there may be a second object, in the other form: it comes next.
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

/** An attempt that died may have left a result compressed that is stored as it is now, or the other way round. */
function isNewer({ modifiedMs = 0 }: ObjectHead, than: ObjectHead): boolean {
  return modifiedMs >= (than.modifiedMs ?? 0);
}

/** What a listing below the pattern's fixed part offers: the index's own form of a path before the plain one. */
async function findMatching(
  search: InputSearch,
  pattern: string,
  ofOtherRuns: Map<RelPath, OtherRunsResult>,
): Promise<Pick<FoundInputs, 'sources' | 'leftOut'>> {
  const found = new Map<RelPath, Source & { readonly own: boolean; readonly head: ObjectHead }>();
  const most = Math.floor(roomInHeap() / INPUT_BYTES);
  let leftOut = 0;
  const take = ({ head, candidates }: Looked): void => {
    const origin = originOf(head.key, head.meta);
    // A result stands for the path that it was stored from; nobody means the name of its object. If its key is
    // shortened, that path is in its record alone: nothing else in the work directory may get a name made of a key.
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
        if (found.size > most) throw tooMany(`inputs that match ${showPath(pattern)}`, most);
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
  return { sources: [...found.values()], leftOut };
}

/** What the listing has of the pattern, {@link PAGE} at a time: there may be very many. */
async function* pagesOf(search: InputSearch, pattern: string): AsyncGenerator<readonly Listed[]> {
  let page: Listed[] = [];
  for await (const key of keysBelow(search, fixedPart(pattern))) {
    if (isRecordKey(key)) continue;
    const candidates = candidatesOf(key, search.scope).filter(
      ({ path }) => isInside(path) && search.manifest.rolesOf(path).input && isWanted(search, path),
    );
    if (candidates.length > 0) page.push({ key, candidates });
    if (page.length < PAGE) continue;
    yield page;
    page = [];
  }
  yield page;
}

/** As capture writes them, and as somebody has uploaded them by hand. */
async function* keysBelow({ store, signal }: InputSearch, dir: string): AsyncGenerator<string> {
  for (const prefix of new Set([escapePath(dir), ...(isPlainKey(dir) ? [dir] : [])]))
    for await (const { key } of store.list(prefix, signal)) yield key;
}

interface Candidate {
  readonly path: RelPath;
  readonly compressed: boolean;
  /** Of this index alone. */
  readonly own: boolean;
}

interface Listed {
  readonly key: string;
  readonly candidates: readonly Candidate[];
}

interface Looked {
  readonly head: ObjectHead;
  readonly candidates: readonly Candidate[];
}

/** Asks for the metadata, which the listing does not have. What has gone meanwhile is left out. */
async function headsOf(
  { store, signal }: InputSearch,
  listed: readonly Listed[],
): Promise<readonly Looked[]> {
  const heads = await pLimit(HEADS_AT_ONCE).map(listed, async ({ key, candidates }) => ({
    head: await store.head(key, signal),
    candidates,
  }));
  return heads.flatMap(({ head, candidates }) => (head === undefined ? [] : [{ head, candidates }]));
}

function candidatesOf(key: string, { index }: KeyScope): readonly Candidate[] {
  const compressed = key.endsWith('.zst');
  const bare = compressed ? key.slice(0, -'.zst'.length) : key;
  const own = bare.endsWith(`.${index}`) ? bare.slice(0, -`.${index}`.length) : undefined;
  return [
    ...(own === undefined ? [] : [{ path: pathOfKey(own), compressed, own: true }]),
    { path: pathOfKey(key), compressed: false, own: false },
  ];
}
