// The manifest: which paths the user declared, and as what. Pure. It is compiled once and asked for every event, so
// names without wildcards are looked up, and only globs are tried one by one.
import picomatch from 'picomatch';
import { ancestorsOf, type RelPath } from '../path.ts';
import type { FileRole, Interest } from './file-state.ts';

/** Patterns as the user wrote them, relative to the work directory (picomatch syntax, or `dir/`). */
export interface ManifestPatterns {
  readonly results: readonly string[];
  readonly checkpoints: readonly string[];
  readonly inputs: readonly string[];
  readonly companions: readonly string[];
  readonly exclude: readonly string[];
  /** Only the newest n matches of these patterns are members of a checkpoint generation; undefined: all. */
  readonly newest: number | undefined;
  /** Paths that are never watched, whatever matches: stores inside the work directory. */
  readonly skip?: readonly RelPath[];
}

/** A file may have several roles at once. */
export interface Roles {
  readonly result: boolean;
  readonly checkpoint: boolean;
  readonly input: boolean;
  readonly companion: boolean;
}

export interface Manifest extends Interest {
  rolesOf(path: RelPath): Roles;
  /** `--exclude`, capture's own directory, or a store in the work directory: whatever else matches, it has no role. */
  isExcluded(path: RelPath): boolean;
  /** Patterns without a wildcard that do not end in `/`: files that are expected by name. */
  readonly exact: {
    readonly results: readonly RelPath[];
    readonly checkpoints: readonly RelPath[];
    readonly inputs: readonly RelPath[];
    readonly companions: readonly RelPath[];
  };
  /**
   * Index of the pattern in `list` that the path matches, -1 if none. For `--newest`, and to find patterns without a
   * match.
   */
  matchIndex(list: keyof PatternLists, path: RelPath): number;
}

type PatternLists = Pick<ManifestPatterns, 'results' | 'checkpoints' | 'inputs' | 'companions' | 'exclude'>;

/** No role: capture never reads or touches the path. */
export const NO_ROLES: Roles = { result: false, checkpoint: false, input: false, companion: false };
/** capture's own directory in the work directory. */
export const OWN_DIR = '.capture';
/**
 * In that directory: the facts of the attempt whose task has begun, and a file that appears once everything that the
 * task closed is stored.
 */
export const ATTEMPT_FILE = 'attempt.json';
/** Locked (flock(2)) as long as a sidecar works in the directory. */
export const LOCK_FILE = 'lock';
export const SAVED_FILE = 'saved';
/** Whoever makes a work directory puts it there. It goes before the first task begins: without it, one may have begun. */
export const FRESH_FILE = 'fresh';
/** Names the run whose task has ended. */
export const ENDED_FILE = 'ended';
/** The content of SAVED_FILE if a retry would end the same way. */
export const IN_VAIN = 'in vain';
/** Its content if another attempt has taken over the index: then nothing here is needed. */
export const FENCED = 'fenced';
/** Otherwise SAVED_FILE is empty. */
export type SavedText = '' | typeof IN_VAIN | typeof FENCED;

export function compileManifest(patterns: ManifestPatterns): Manifest {
  const results = compileList(patterns.results);
  const checkpoints = compileList(patterns.checkpoints);
  const inputs = compileList(patterns.inputs);
  const companions = compileList(patterns.companions);
  const exclude = compileList(patterns.exclude);
  const lists = { results, checkpoints, inputs, companions, exclude };
  const declared = [results, checkpoints, inputs, companions];
  const skipped = compileList([OWN_DIR, ...(patterns.skip ?? []).map(quoted)]);
  const isExcluded = (path: RelPath): boolean => skipped.matches(path) || exclude.matches(path);
  const rolesOf = (path: RelPath): Roles => {
    if (isExcluded(path)) return NO_ROLES;
    return {
      result: results.matches(path),
      checkpoint: checkpoints.matches(path),
      input: inputs.matches(path),
      companion: companions.matches(path),
    };
  };
  return {
    rolesOf,
    isExcluded,
    wants: (path) => !isExcluded(path) && declared.some((list) => list.matches(path)),
    canHold: (dir) => {
      if (skipped.coversAll(dir) || exclude.coversAll(dir)) return false;
      return declared.some((list) => list.reaches(dir));
    },
    exact: {
      results: results.exact,
      checkpoints: checkpoints.exact,
      inputs: inputs.exact,
      companions: companions.exact,
    },
    matchIndex: (list, path) => lists[list].indexOf(path),
  };
}

/** A pattern that matches exactly this name. */
function quoted(name: RelPath): string {
  return name.replaceAll(/[\\!*+?@()[\]{}|]/g, '\\$&');
}

/** All patterns of one option. */
interface PatternList {
  readonly exact: readonly RelPath[];
  matches(path: RelPath): boolean;
  /** The first pattern in the user's order that matches, -1 if none. */
  indexOf(path: RelPath): number;
  /** True if a match can be below the directory. */
  reaches(dir: RelPath): boolean;
  /** True if a name without wildcards declares everything below the directory. */
  coversAll(dir: RelPath): boolean;
}

function compileList(texts: readonly string[]): PatternList {
  const parsed = texts.map(parsePattern);
  const named = parsed.filter((pattern) => pattern.kind === 'named');
  const globs = parsed.flatMap((pattern, index) =>
    pattern.kind === 'glob' ? [{ ...compileGlob(pattern.text), index }] : [],
  );
  const names = indexNames(parsed);
  const above = new Set(named.flatMap(({ name }) => ancestorsOf(name)));
  const indexOf = (path: RelPath): number => smallerIndex(names.indexOf(path), globIndex(globs, path));
  return {
    exact: named.filter((pattern) => !pattern.directory).map(({ name }) => name),
    matches: (path) => names.indexOf(path) !== -1 || globIndex(globs, path) !== -1,
    indexOf,
    reaches: (dir) => above.has(dir) || names.below(dir) !== -1 || globs.some((glob) => glob.reaches(dir)),
    coversAll: (dir) => names.below(dir) !== -1,
  };
}

/**
 * A file may be declared by its own name, or by any directory above it. This needs at most one look-up for each
 * component.
 */
function indexNames(parsed: readonly (Named | { readonly kind: 'glob' })[]): {
  indexOf(path: RelPath): number;
  /** The pattern that declares everything below `dir`. */
  below(dir: RelPath): number;
} {
  const files = new Map<RelPath, number>();
  const directories = new Map<RelPath, number>();
  parsed.forEach((pattern, index) => {
    if (pattern.kind === 'glob') return;
    // A name without a final slash is that file, or everything below it if it is a directory.
    if (!directories.has(pattern.name)) directories.set(pattern.name, index);
    if (!pattern.directory && !files.has(pattern.name)) files.set(pattern.name, index);
  });
  const inDirectories = (paths: readonly RelPath[]): number => {
    let first = -1;
    for (const path of paths) first = smallerIndex(first, directories.get(path) ?? -1);
    return first;
  };
  return {
    indexOf: (path) =>
      directories.size === 0 ? -1 : smallerIndex(files.get(path) ?? -1, inDirectories(ancestorsOf(path))),
    below: (dir) => (directories.size === 0 ? -1 : inDirectories([dir, ...ancestorsOf(dir)])),
  };
}

function globIndex(globs: readonly (Glob & { readonly index: number })[], path: RelPath): number {
  return globs.find((glob) => glob.matches(path))?.index ?? -1;
}

/** The smaller of two indices; -1 stands for none. */
function smallerIndex(a: number, b: number): number {
  if (a === -1 || b === -1) return Math.max(a, b);
  return Math.min(a, b);
}

export function rolesToStore({ result, checkpoint }: Roles): readonly FileRole[] {
  return [...(result ? ['result' as const] : []), ...(checkpoint ? ['checkpoint' as const] : [])];
}

/** A path without wildcards. `directory`: it ended in `/`, so only what is below it is declared. */
export interface Named {
  readonly kind: 'named';
  readonly name: RelPath;
  readonly directory: boolean;
}

export interface Glob {
  matches(path: RelPath): boolean;
  /** True if a match can be below the directory, at any depth; '' is the work directory. */
  reaches(dir: RelPath): boolean;
}

/** A name that begins with a dot matches like any other, and a line feed is a character like any other. */
const OPTIONS = { dot: true, nonegate: true, flags: 's' } as const;

export function parsePattern(text: string): Named | { readonly kind: 'glob'; readonly text: string } {
  if (picomatch.scan(text, { nonegate: true }).isGlob) return { kind: 'glob', text };
  return { kind: 'named', name: literal(text), directory: text.endsWith('/') };
}

/** A glob that ends in `/` declares everything below the directories that it matches. */
export function compileGlob(text: string): Glob {
  const whole = text.endsWith('/') ? `${text}**` : text;
  const base = literal(picomatch.scan(whole, { nonegate: true }).base);
  const above = new Set(ancestorsOf(base));
  const below = `${base}/`;
  // `**` matches any depth, and so does a group that repeats a slash. Otherwise each slash is one level.
  const depth = /\*\*|\(/.test(whole) ? Infinity : whole.split('/').length;
  return {
    matches: picomatch(whole, OPTIONS),
    reaches: (dir) => {
      if (above.has(dir)) return true;
      if (base !== '' && dir !== base && !dir.startsWith(below)) return false;
      return dir === '' || dir.split('/').length < depth;
    },
  };
}

/** The text without the backslashes that quote wildcards, and without a trailing slash. */
function literal(text: string): string {
  return text.replaceAll(/\\(.)/gs, '$1').replace(/\/+$/, '');
}

/** `data/*.csv` → `data/`, `data/` → `data/`, `*.csv` → ``. */
export function fixedPart(pattern: string): string {
  const { base, isGlob } = picomatch.scan(pattern);
  if (!isGlob) return pattern.endsWith('/') ? pattern : `${pattern}/`;
  return base === '' || base === '.' ? '' : `${base}/`;
}
