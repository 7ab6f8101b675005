// Passes an attempt from one process to the next without a launcher: from `capture restore --handoff` to `capture
// watch`, and from a watch that died to the one that its container starts next. What is found in the work directory is
// checked before it is believed; the claim itself is in the store.
import { generationName } from '../../model/checkpoint/history.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import type { Generation } from '../../model/format/records.ts';
import { keyIndex, type Settings } from '../../model/format/settings.ts';
import { showPath } from '../../model/path.ts';
import { bootId } from '../../native/boot-id.ts';
import {
  readLastAttemptFile,
  writeAttemptFile,
  type Handover,
  type RestoredFacts,
} from '../run/attempt-file.ts';
import type { Restored } from './restore.ts';

const OPTION_OF: Readonly<Record<keyof Handover['who'], string>> = {
  to: '--to',
  taskName: '--task-name',
  index: '--index',
  run: '--run',
};

/** What a `capture watch` leaves for the next one. */
export function handoverFor(settings: Settings): Handover {
  const { taskName, runId = '' } = settings.identity;
  const who = { to: settings.to.url, taskName, index: keyIndex(settings.identity), run: runId };
  return { boot: bootId(), who };
}

/**
 * The attempt that a `capture watch` in this work directory continues; undefined if none was left for it. Throws status
 * 64 if one was left for another watch.
 */
export function attemptLeft(settings: Settings): number | undefined {
  if (settings.sharedWorkdir) return undefined;
  const file = readLastAttemptFile(settings);
  const here = handoverFor(settings);
  if (file?.handover === undefined || file.handover.boot !== here.boot) return undefined;
  const { who, restored } = file.handover;
  const names = Object.keys(OPTION_OF) as (keyof Handover['who'])[];
  const other = names.find((name) => who[name] !== here.who[name]);
  if (other === undefined) return file.attempt;
  // No task was started in it. A new attempt would ignore what was restored.
  if (restored === undefined) return undefined;
  throw new CaptureError(
    EXIT.usage,
    `capture restore --handoff in ${showPath(settings.workdir)} was not for this capture watch: ` +
      `${OPTION_OF[other]} was '${showPath(who[other])}' and is '${showPath(here.who[other])}'`,
    { hint: `give capture restore --handoff and capture watch the same ${OPTION_OF[other]}` },
  );
}

/** A plain restore has changed the work directory: the next `capture watch` begins an attempt of its own. */
export function forgetHandover(settings: Settings): void {
  const file = readLastAttemptFile(settings);
  if (file?.handover !== undefined) writeAttemptFile(settings, { ...file, handover: undefined });
}

/** What `capture restore --handoff` has restored. `facts` undefined: it is unknown what has become of it. */
export function restoredBefore(
  facts: RestoredFacts | undefined,
  generations: readonly Generation[],
): Restored {
  const generation = generations.find((one) => generationName(one) === facts?.generation);
  const members = (facts?.members ?? []).flatMap(([path, fingerprint]) => {
    const file = generation?.members.find((member) => member.path === path);
    return file === undefined ? [] : [{ file, facts: fingerprint }];
  });
  const judgements = facts?.judgements ?? [];
  return { generation, members, files: members.length, judgements, lacking: [], unrecorded: [] };
}

/** '' if it cannot be read, as in a sandbox without /proc/sys. */
