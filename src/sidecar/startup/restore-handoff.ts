// `capture restore --handoff`: begins the attempt that a `capture watch` in the same work directory then continues
// (startup/handover.ts). It leaves the claim in the store and one file in the work directory, nothing else.
import fs from 'node:fs';
import type { Log } from '../../log/log.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import type { Settings } from '../../model/format/settings.ts';
import { encodePath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { findInTurns } from '../../watch/scan.ts';
import { plain, type RestoredFacts } from '../run/attempt-file.ts';
import type { Context } from '../run/context.ts';
import { Outage } from '../run/outage.ts';
import { recordInherited } from './baseline-scan.ts';
import { handoverFor } from './handover.ts';
import { sayNothingRestored } from './opening-lines.ts';
import { Patience, startLimitMs } from './patience.ts';
import type { Restored } from './restore.ts';
import { begin } from './start.ts';

/** Claims the attempt, restores, and leaves both for the `capture watch` that follows. Holds nothing afterwards. */
export async function handOver(settings: Settings, log: Log, signal: AbortSignal): Promise<string> {
  const outage = new Outage(log, clockMs);
  const patience = new Patience({ limitMs: startLimitMs(settings), signal, outage });
  try {
    const begun = await begin({
      settings,
      attempt: undefined,
      log,
      outage,
      patience,
      signal,
      onFenced: () => undefined,
    });
    // `--skip-done` is no option of a restore.
    if (begun.kind === 'done-already') return `done already in attempt ${begun.attempt}`;
    const { context, restored, close } = begun;
    try {
      // All containers of the pod were started again, and the file is an earlier task's: the watch would end at once.
      if (settings.exitFile !== undefined) fs.rmSync(encodePath(settings.exitFile), { force: true });
      await record(context, restored);
      if (restored.generation === undefined)
        await sayNothingRestored({ ...context, signal: patience.signal });
    } finally {
      await close();
    }
    const { generation, files } = restored;
    const checkpoint =
      generation === undefined ? 'no checkpoint' : `checkpoint ${generationName(generation)}`;
    return `attempt ${context.attempt} is ready for capture watch: restored ${checkpoint} (${plural(files, 'file')} in all) from ${context.store.url}`;
  } finally {
    outage.close();
  }
}

async function record(context: Context, before: Restored): Promise<void> {
  const { generation, members, judgements } = before;
  const { root, manifest, settings, signal } = context;
  // What cannot be read now is left to the watch.
  const walk = { root, interest: manifest, onUnreadable: () => undefined };
  const restored: RestoredFacts = {
    generation: generation === undefined ? '' : generationName(generation),
    members: members.map(({ file, facts }) => [file.path, plain(facts)]),
    judgements: [...judgements],
  };
  const found = findInTurns(walk, 'thread', signal);
  await recordInherited(context, before, found, { ...handoverFor(settings), restored });
}
