// `--workdir auto`: a directory of its own for one attempt, made and swept as `capture array` does it for its tasks. It
// goes when all is stored, and stays if something could not be stored, or if the task failed and it takes no memory.
import os from 'node:os';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import type { Settings } from '../model/format/settings.ts';
import { showCommand } from '../model/many/placeholders.ts';
import { showPath } from '../model/path.ts';
import { availableMemoryBytes } from '../native/available-memory.ts';
import { isInMemory } from '../native/disk-use.ts';
import { NO_INDEX, UNSAVED_HINT } from '../scratch/left-work.ts';
import { openScratch, type TaskDir } from '../scratch/scratch.ts';

export interface FreshWorkdir {
  readonly path: string;
  /** The sidecar has ended. `hasRun`: the task had been started. Never rejects. */
  ended(status: ExitStatus, hasRun: boolean): Promise<void>;
  /** Removes it, unless `ended` has settled what stays. */
  close(): Promise<void>;
}

export async function openFreshWorkdir(
  { identity: { index }, preemptedStatus }: Settings,
  log: Pick<Log, 'warn'>,
  stopping?: AbortSignal,
): Promise<FreshWorkdir> {
  const scratch = await openScratch(undefined, {
    tasksAtOnce: 1,
    hasAllTries: false,
    availableBytes: availableMemoryBytes(),
    nameIt: (what) => `set TMPDIR to ${what}`,
    stopping,
    // The sidecar compares it with the store once the task runs (sidecar/disk/killed-runs.ts).
    fateOf: async () => 'later',
    log,
  });
  const dir = scratch.dirFor(/^\d{1,9}$/.test(index ?? '') ? Number(index) : NO_INDEX);
  let isOpen = true;
  const close = async (): Promise<void> => {
    if (isOpen) await scratch.close();
    isOpen = false;
  };
  try {
    dir.make();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    path: dir.path,
    ended: async (status, hasRun) => {
      try {
        // The task's own status may be the same: the sidecar's mark decides.
        if (status === EXIT.ok || (status === EXIT.fenced && dir.isFenced()))
          await dir.remove().catch(() => undefined); // `close` tries again, and says what stays
        else if (hasRun && status !== preemptedStatus) await tellFailed(dir, scratch.root, log);
        else tellUnsaved(dir, log);
        await close();
      } catch (error) {
        log.warn(`the work directory ${showPath(dir.path)} stays: ${reasonOf(error)}`);
      }
    },
    close,
  };
}

async function tellFailed(dir: TaskDir, root: string, log: Pick<Log, 'warn'>): Promise<void> {
  const [kept] = await dir.keep();
  if (kept !== undefined)
    log.warn(`the work directory stays: ${showPath(kept)} on ${os.hostname()}`, {
      hint: `look at it, then delete it: ${showCommand(['rm', '-r', root])}`,
    });
  else if (isInMemory(root))
    log.warn('the work directory was in memory and is removed: what was declared is stored', {
      hint: 'for a directory that stays after a failure: --workdir <dir>, on a disk',
    });
}

function tellUnsaved(dir: TaskDir, log: Pick<Log, 'warn'>): void {
  const [aside] = dir.isUnsaved() ? dir.setAside() : [];
  if (aside === undefined) return;
  log.warn(`what could not be stored stays in ${showPath(aside)} on ${os.hostname()}`, {
    hint: UNSAVED_HINT,
  });
}
