// Where the inputs come from: those that are not in the work directory are looked for in the store, the
// index's own first. Only finds them; fetch.ts brings them.
import fs from 'node:fs';
import { escapePath, inputKeys, unescapeKey, type KeyScope } from '../core/keys.ts';
import type { Manifest } from '../core/manifest.ts';
import { fixedPart } from '../core/fixed-part.ts';
import { encodePath, isInside, type RelPath } from '../core/path.ts';
import type { ObjectHead, Store } from '../store/store.ts';
import type { Source } from './source.ts';

export interface FoundInputs {
  readonly sources: readonly Source[];
  /** Exactly named inputs that are neither here nor in the store. */
  readonly missing: readonly RelPath[];
}

/** `known`: paths that an earlier attempt's record already supplies. */
export async function findInputs(
  store: Store,
  scope: KeyScope,
  manifest: Manifest,
  patterns: readonly string[],
  root: string,
  known: ReadonlySet<RelPath>,
  signal: AbortSignal,
): Promise<FoundInputs> {
  const isHere = (path: RelPath): boolean =>
    fs.lstatSync(encodePath(`${root}/${path}`), { throwIfNoEntry: false }) !== undefined;
  const sources: Source[] = [];
  const missing: RelPath[] = [];
  for (const path of manifest.exact.inputs) {
    if (known.has(path) || isHere(path)) continue;
    // oxlint-disable-next-line no-await-in-loop -- a handful of names, in the order of their precedence
    const source = await findExact(store, scope, path, signal);
    if (source === undefined) missing.push(path);
    else sources.push(source);
  }
  for (const pattern of patterns) {
    if (manifest.exact.inputs.includes(pattern)) continue;
    // oxlint-disable-next-line no-await-in-loop -- one listing after the other is kinder to the store
    sources.push(...(await findMatching(store, scope, manifest, pattern, signal)));
  }
  const wanted = new Map(
    sources.filter(({ path }) => !known.has(path) && !isHere(path)).map((s) => [s.path, s]),
  );
  return { sources: [...wanted.values()], missing };
}

async function findExact(
  store: Store,
  scope: KeyScope,
  path: RelPath,
  signal: AbortSignal,
): Promise<Source | undefined> {
  for (const { key, compressed } of inputKeys(path, scope)) {
    // oxlint-disable-next-line no-await-in-loop -- the first that is there wins
    const head = await store.head(key, signal);
    if (head !== undefined) return sourceOf(path, head, compressed);
  }
  return undefined;
}

/** What a listing below the pattern's fixed part offers: the index's own form of a path before the plain one. */
async function findMatching(
  store: Store,
  scope: KeyScope,
  manifest: Manifest,
  pattern: string,
  signal: AbortSignal,
): Promise<readonly Source[]> {
  const found = new Map<
    RelPath,
    { readonly key: string; readonly compressed: boolean; readonly own: boolean }
  >();
  for await (const { key } of store.list(escapePath(fixedPart(pattern)), signal)) {
    if (key.startsWith('.capture/')) continue;
    for (const candidate of candidatesOf(key, scope)) {
      if (!isInside(candidate.path) || !manifest.rolesOf(candidate.path).input) continue;
      if (candidate.own || !found.has(candidate.path)) found.set(candidate.path, { ...candidate, key });
    }
  }
  const sources: Source[] = [];
  for (const [path, { key, compressed }] of found) {
    // oxlint-disable-next-line no-await-in-loop -- the metadata says what the listing does not
    const head = await store.head(key, signal);
    if (head !== undefined) sources.push(sourceOf(path, head, compressed));
  }
  return sources;
}

function candidatesOf(
  key: string,
  { index }: KeyScope,
): readonly { path: RelPath; compressed: boolean; own: boolean }[] {
  const compressed = key.endsWith('.zst');
  const bare = compressed ? key.slice(0, -'.zst'.length) : key;
  const own = bare.endsWith(`.${index}`) ? bare.slice(0, -`.${index}`.length) : undefined;
  return [
    ...(own === undefined ? [] : [{ path: unescapeKey(own), compressed, own: true }]),
    { path: unescapeKey(key), compressed: false, own: false },
  ];
}

/** Other programs write metadata of the same names: only what reads as ours is believed. */
function sourceOf(path: RelPath, { key, meta }: ObjectHead, compressed: boolean): Source {
  const matching = (name: string, pattern: RegExp): string | undefined => {
    const value = meta[name];
    return value !== undefined && pattern.test(value) ? value : undefined;
  };
  const size = matching('size', /^\d{1,15}$/);
  const mode = matching('mode', /^[0-7]{1,4}$/);
  return {
    path,
    kind: meta['link'] === '1' ? 'link' : 'file',
    key,
    compressed,
    md5: matching('md5', /^[0-9a-f]{32}$/),
    size: size === undefined ? undefined : Number(size),
    mtimeNs: matching('mtime', /^-?\d{1,20}$/),
    mode: mode === undefined ? undefined : Number.parseInt(mode, 8),
  };
}
