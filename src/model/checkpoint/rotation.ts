// Names that rotate: which part of a path is the unit named by a pattern's last star (`step-*/**`: the directory,
// `melt.*.rst`: the file), and which part is the same in each unit. Pure.
import type { RelPath } from '../path.ts';

export interface Rotation {
  /** What the star names: a directory that is filled file by file, or a file. */
  readonly kind: 'directory' | 'file';
  /** The name of the unit, wherever it is in the path: `100` in `processor3/100/U`. */
  readonly unit: string;
  /** The path without the part that differs between units; the whole path if that part is unknown. */
  readonly kin: string;
  /** The numbers in the unit at the pattern's star. */
  readonly numbers: readonly string[];
  /** The unit's name without those numbers. */
  readonly shape: string;
}

const MAGIC = /[*?[\](){}]+/;

/** Undefined for a path whose pattern has no star. */
export type Rotates = (path: RelPath) => Rotation | undefined;

/** What the star of a pattern names. A directory is given by its depth below the work directory. */
type Starred = { readonly kind: 'file' } | { readonly kind: 'directory'; readonly at: number };

/** `**`, and a final `*` after another star, name no unit: they match everything in a directory. */
function starOf(pattern: string): Starred | undefined {
  const parts = pattern.split('/').filter((part) => part !== '');
  const stars = parts.flatMap((part, at) => (part !== '**' && isStar(part) ? [at] : []));
  const isAll = stars.length > 1 && stars.at(-1) === parts.length - 1 && parts.at(-1) === '*';
  const last = stars.at(isAll ? -2 : -1);
  if (last === undefined) return parts.includes('**') ? { kind: 'file' } : undefined;
  const isFile = last === parts.length - 1 && !pattern.endsWith('/');
  // After a `**`, or a group with a slash, the depth of the directory is unknown.
  const isAnywhere = parts.slice(0, last).includes('**') || /[{(][^})]*\//.test(pattern);
  return isFile || isAnywhere ? { kind: 'file' } : { kind: 'directory', at: last };
}

/** True for a pattern whose last star names a directory that is filled file by file. */
export function namesDirectories(pattern: string): boolean {
  return starOf(pattern)?.kind === 'directory';
}

export function compileRotation(pattern: string): Rotates {
  const star = starOf(pattern);
  if (star === undefined) return () => undefined;
  const asFile = fileUnit(pattern);
  if (star.kind === 'file') return asFile;
  const { at } = star;
  const part = pattern.split('/').filter((one) => one !== '')[at] ?? '';
  return (path) => {
    const names = path.split('/');
    const unit = names[at];
    if (unit === undefined || at === names.length - 1) return asFile(path);
    const { numbers, shape } = numbersIn(part, unit);
    const kin = [...names.slice(0, at), '*', ...names.slice(at + 1)].join('/');
    return { kind: 'directory', unit, kin, numbers, shape };
  };
}

/**
 * Names are kin if they differ only in the one number at the pattern's star. If there are several numbers, as in a
 * date or with a process rank, nobody can say which one counts.
 */
function fileUnit(pattern: string): (path: RelPath) => Rotation {
  const part = pattern.slice(pattern.lastIndexOf('/') + 1);
  return (path) => {
    const cut = path.lastIndexOf('/') + 1;
    const unit = path.slice(cut);
    const { numbers, shape } = numbersIn(part, unit);
    const kin = numbers.length === 1 ? path.slice(0, cut) + shape : path;
    return { kind: 'file', unit, kin, numbers, shape };
  };
}

/** `part`: the part of the pattern whose star matches the name. */
function numbersIn(part: string, name: string): Pick<Rotation, 'numbers' | 'shape'> {
  const [before = ''] = part.split(MAGIC);
  const behind = part.split(MAGIC).at(-1) ?? '';
  const isPlain =
    name.startsWith(before) && name.endsWith(behind) && name.length > before.length + behind.length;
  const [head, tail] = isPlain ? [before, behind] : ['', ''];
  const star = name.slice(head.length, name.length - tail.length);
  return { numbers: star.match(/\d+/g) ?? [], shape: head + star.replaceAll(/\d+/g, '*') + tail };
}

function isStar(part: string): boolean {
  return MAGIC.test(part.replaceAll(/\\./g, ''));
}

/** For all checkpoint patterns; `matchIndex` says which of them declares a path. */
export function compileRotations(
  patterns: readonly string[],
  matchIndex: (path: RelPath) => number,
): Rotates {
  const rotates = patterns.map(compileRotation);
  return (path) => rotates[matchIndex(path)]?.(path);
}
