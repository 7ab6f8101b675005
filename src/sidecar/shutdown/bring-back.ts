// What the end of a run says of local files that were deleted: the name under which one of them is stored, and the
// command that brings them back.
import { showCommand } from '../../model/many/placeholders.ts';
import { unmatched } from '../../model/outcome/verdict.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import type { Needs } from '../run/context.ts';
import type { FinishParts } from './outcome.ts';

type DeletingContext = Needs<'settings' | 'ledger'>;

/** A list of more patterns, as of a manifest file, becomes `**`. So does a name that a message cannot show. */
const MOST_PATTERNS = 5;

/** `2 local files deleted here (r.dat is stored as r.dat.0.zst)`; undefined if none was deleted. */
export function deletedLine(
  context: DeletingContext,
  { reclaimed, firstReclaimed }: FinishParts['reclaims'],
) {
  if (firstReclaimed === undefined) return undefined;
  const key = keyOf(context, firstReclaimed);
  const stored = key === undefined ? '' : ` (${showPath(firstReclaimed)} is stored as ${showPath(key)})`;
  return `${plural(reclaimed, 'local file')} deleted here${stored}`;
}

function keyOf({ ledger }: DeletingContext, path: RelPath): string | undefined {
  const ofResult = ledger.results.get(path)?.key;
  // The newest generation comes first. Only a file in the state that its newest object holds is deleted.
  const members = ledger.generations.flatMap((generation) => generation.members);
  return ofResult ?? members.find((one) => one.path === path)?.key;
}

/**
 * The command that brings all stored results and the newest checkpoint back into the work directory, or into the current
 * one if capture itself has made the work directory: that may go. Undefined if nothing was deleted, or if nobody needs
 * to look into the directory that capture has made.
 */
export function bringBackHint(
  { settings, ledger }: DeletingContext,
  { reclaimed }: FinishParts['reclaims'],
  hasFailed: boolean,
): string | undefined {
  const isMade = settings.madeWorkdir === true;
  if (reclaimed === 0 || (isMade && !hasFailed)) return undefined;
  const { manifest, identity, to, workdir, seal } = settings;
  const none = new Set(unmatched(manifest.results, ledger.results.keys()));
  const results = manifest.results.filter((pattern) => !none.has(pattern));
  const [checkpoints, companions] =
    ledger.generations.length > 0 ? [manifest.checkpoints, manifest.companions] : [[], []];
  const command = showCommand([
    'capture',
    'restore',
    ...asOptions(['--to'], [to.url]),
    ...to.flags.map((flag) => `--${flag}`),
    ...asOptions(['--identity'], [seal?.identityFile ?? []].flat()),
    ...asOptions(['--identity-command'], [seal?.identityCommand ?? []].flat()),
    ...asOptions(['--workdir'], isMade ? [] : [workdir]),
    ...asOptions(['--task-name'], [identity.taskName]),
    ...asOptions(['--index'], [identity.index ?? []].flat()),
    ...asOptions(['--run'], [identity.runId ?? []].flat()),
    ...asOptions(['-r', '-i'], inShort(results)),
    ...asOptions(['-k'], inShort(checkpoints)),
    ...asOptions(['--companions'], inShort(companions)),
  ]);
  return `to bring back what was deleted${isMade ? ', into the current directory' : ''}: ${command}`;
}

function asOptions(names: readonly string[], values: readonly string[]): readonly string[] {
  return values.flatMap((value) => names.flatMap((name) => [name, value]));
}

function inShort(patterns: readonly string[]): readonly string[] {
  const isShown = patterns.every((pattern) => showPath(pattern) === pattern);
  return patterns.length > MOST_PATTERNS || !isShown ? ['**'] : patterns;
}
