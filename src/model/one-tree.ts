// Which of several files can stand in one directory tree: no path can be a file and hold other files. Pure.
import { ancestorsOf, type RelPath } from './path.ts';

interface PathSet {
  has(path: RelPath): boolean;
  keys(): Iterable<RelPath>;
}

/**
 * The paths that must go, so that the others can be files of one tree: of a file and the files below its path, those
 * go that are older. `agesOf`: called only if there are such paths; larger is newer.
 */
export function outdatedPaths(
  paths: PathSet,
  agesOf: (clashing: ReadonlySet<RelPath>) => (path: RelPath) => number,
): ReadonlySet<RelPath> {
  const files = filesAbove(paths);
  const gone = new Set<RelPath>();
  if (files.length === 0) return gone;
  const below = new Map(files.map((file) => [file, new Set<RelPath>()]));
  for (const path of paths.keys()) for (const dir of ancestorsOf(path)) below.get(dir)?.add(path);
  const ageOf = agesOf(new Set([...files, ...[...below.values()].flatMap((inside) => [...inside])]));
  for (const [file, all] of [...below].toSorted(([a], [b]) => a.length - b.length)) {
    const inside = [...all].filter((path) => !gone.has(path));
    if (gone.has(file) || inside.length === 0) continue;
    const isNewest = inside.every((path) => ageOf(path) < ageOf(file));
    for (const path of isNewest ? inside : [file]) gone.add(path);
  }
  return gone;
}

/** True of a path that can be no file beside these. */
export function clashesWith(paths: PathSet): (path: RelPath) => boolean {
  const dirs = directoriesOf(paths);
  return (path) => dirs.has(path) || ancestorsOf(path).some((dir) => paths.has(dir));
}

function filesAbove(paths: PathSet): readonly RelPath[] {
  return [...directoriesOf(paths)].filter((dir) => paths.has(dir));
}

/** The directories above these paths. */
export function directoriesOf(paths: Pick<PathSet, 'keys'>): ReadonlySet<RelPath> {
  const dirs = new Set<RelPath>();
  let last = '';
  for (const path of paths.keys()) {
    const dir = path.slice(0, Math.max(0, path.lastIndexOf('/')));
    if (dir === last) continue;
    last = dir;
    for (const one of ancestorsOf(path)) dirs.add(one);
  }
  return dirs;
}
