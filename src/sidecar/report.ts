// What the end of the run tells the user: which declared files are not stored and why, and the last line.
import { isSettled, type Track } from '../core/decide.ts';
import { showPath, type RelPath } from '../core/path.ts';
import type { LeftFile } from '../core/records.ts';
import { formatBytes, plural } from '../core/units.ts';
import type { FinishParts } from './finish.ts';
import { statMember } from './members.ts';

/** Names in the last line before it says how many more there are. */
const NAMED_LEFT = 10;

/** Declared files that were closed, are still there, and are not stored. */
export function leftFiles(
  { files, context }: FinishParts,
  postponed: readonly RelPath[],
): readonly LeftFile[] {
  const left = new Map<string, string>();
  for (const track of [...files.tracks('result'), ...files.tracks('checkpoint')]) {
    const why = whyLeft(track);
    if (why !== undefined && statMember(context.root, track.path) !== undefined) left.set(track.path, why);
  }
  for (const path of postponed) if (!left.has(path)) left.set(path, 'its generation could not be committed');
  return [...left].map(([path, why]) => ({ path, why }));
}

function whyLeft(track: Track): string | undefined {
  if (track.left !== undefined) return track.left;
  if (track.blocked) return 'another process still has it open for writing';
  if (track.tornTries > 0) return 'it changed each time it was read';
  return isSettled(track) ? undefined : 'no time was left';
}

/** What was stored, what was left and why, which pattern never matched a file. */
export function lastLine(parts: FinishParts, left: readonly LeftFile[], recorded: boolean): string {
  const { context, results, checkpoints, generations, reclaims } = parts;
  const said = [`stored ${plural(results.filesStored, 'result')} (${formatBytes(results.bytesStored)})`];
  if (generations.committed > 0) {
    said.push(`${plural(generations.committed, 'checkpoint')} (${formatBytes(checkpoints.bytesStored)})`);
  }
  if (reclaims.reclaimed > 0) said.push(`${plural(reclaims.reclaimed, 'local file')} reclaimed`);
  if (left.length > 0) {
    const named = left.slice(0, NAMED_LEFT).map(({ path, why }) => `${showPath(path)} (${why})`);
    const more = left.length > NAMED_LEFT ? `, and ${left.length - NAMED_LEFT} more` : '';
    said.push(`NOT stored: ${named.join(', ')}${more}`);
  }
  const never = neverMatched(parts);
  if (never.length > 0) said.push(`never matched a file: ${never.join(', ')}`);
  if (!recorded) said.push('the last record is NOT written');
  return `${said.join('; ')} -> ${context.store.url}`;
}

function neverMatched({ context, files }: FinishParts): readonly string[] {
  const { manifest, settings } = context;
  return (['results', 'checkpoints'] as const).flatMap((list) => {
    const role = list === 'results' ? 'result' : 'checkpoint';
    const matched = new Set(files.tracks(role).map(({ path }) => manifest.matchIndex(list, path)));
    return settings.manifest[list].filter((_, at) => !matched.has(at));
  });
}
