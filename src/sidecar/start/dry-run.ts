// `--dry-run`: who this would be, what matches now, under which keys it would go, what would be restored.
// Reads the store and the work directory, writes nothing.
import { firstLine } from '../../core/first-line.ts';
import { generationName, restoreOrder, type History } from '../../core/history.ts';
import { checkpointKey, resultKey, segmentKey, type KeyScope } from '../../core/keys.ts';
import { compileManifest, type Manifest } from '../../core/manifest.ts';
import { showPath } from '../../core/path.ts';
import type { Settings } from '../../core/settings.ts';
import { formatBytes } from '../../core/units.ts';
import { openStore } from '../../store/open.ts';
import { findAll, type FoundFile } from '../../watch/scan.ts';
import { readHistory } from './restore-only.ts';

export async function dryRun(settings: Settings, signal: AbortSignal): Promise<string> {
  const store = await openStore(settings.to);
  try {
    const problems: string[] = [];
    const { history, scope, newestAttempt } = await readHistory(
      store,
      settings,
      (line) => problems.push(line),
      signal,
    );
    const manifest = compileManifest(settings.manifest);
    const unreadable: string[] = [];
    const found = await findAll(
      { root: settings.workdir, interest: manifest, onUnreadable: (dir) => unreadable.push(dir) },
      'thread',
      signal,
    );
    const lines = [
      firstLine(settings, newestAttempt + 1),
      ...problems,
      ...unreadable.map((dir) => `cannot read ${showPath(dir)}`),
      ...matches(found, manifest, scope, newestAttempt + 1),
      ...restores(history, settings),
    ];
    return `${lines.join('\n')}\n`;
  } finally {
    await store.close();
  }
}

function matches(
  found: readonly FoundFile[],
  manifest: Manifest,
  scope: KeyScope,
  attempt: number,
): readonly string[] {
  if (found.length === 0) return ['matches: nothing in the work directory yet'];
  return found.flatMap(({ path, facts }) => {
    const { result, checkpoint, input, companion } = manifest.rolesOf(path);
    const size = formatBytes(facts.size);
    const at = { attempt, generation: 1 };
    return [
      ...(result ? [`result ${showPath(path)} (${size}) -> ${resultKey(path, scope, false)}[.zst]`] : []),
      ...(checkpoint
        ? [`checkpoint ${showPath(path)} (${size}) -> ${checkpointKey(path, scope, at, false)}[.zst]`]
        : []),
      ...(companion
        ? [
            `companion ${showPath(path)} (${size}) -> ${segmentKey(path, scope, { ...at, segment: 1 }, false)}[.zst]`,
          ]
        : []),
      ...(input ? [`input ${showPath(path)} (${size})`] : []),
    ];
  });
}

function restores(history: History, settings: Settings): readonly string[] {
  if (!settings.restore) return ['restore: nothing (--no-restore)'];
  const [newest] = restoreOrder(history.generations, settings.verify?.atRestore === true);
  if (newest === undefined) return ['restore: no checkpoint is stored'];
  const members = [...newest.members, ...newest.companions].map(
    ({ path, size }) => `${showPath(path)} (${formatBytes(size)})`,
  );
  return [`restore: checkpoint ${generationName(newest)} of ${newest.at}: ${members.join(', ')}`];
}
