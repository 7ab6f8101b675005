// Warns that the work directory is nearly full before the task's own writes fail. It deletes nothing: reclaims.ts does.
import type { Log } from '../../log/log.ts';
import type { Settings } from '../../model/format/settings.ts';
import { formatBytes } from '../../model/units.ts';
import { type DiskUse, diskUseOf } from '../../native/disk-use.ts';

/** Warns above this share; warns again only after the use fell below the second share. */
const FULL = 0.9;
const ROOM_AGAIN = 0.85;
/** Looks are at least this far apart. One always follows the last change of a burst. */
const LOOK_EVERY_MS = 2000;

const NAMES = {
  space: 'the file system of the work directory',
  files: 'the number of files on the file system of the work directory',
  memory: 'the memory that this job may use, with a work directory in it,',
} as const;

const HINTS = {
  never: '--reclaim auto deletes stored results when space runs short',
  auto: '--reclaim now deletes each result as soon as it is stored',
  now: 'give the task a larger work directory, or let it write less at a time',
} as const;

/** How much of the work directory's space capture can account for, in bytes. */
interface KnownBytes {
  readonly storedBytes: number;
  readonly waitingBytes: number;
}

interface RoomOptions {
  readonly dir: string;
  readonly reclaim: Settings['reclaim'];
  readonly held: () => KnownBytes;
  readonly log: Log;
  readonly uses?: (dir: string) => Promise<readonly DiskUse[]>;
}

/**
 * Warns that the work directory is nearly full, and says how much of it capture accounts for, before the task's own
 * writes fail. Looks only after a file was closed or sent: an idle run is never woken for it.
 */
export class LowSpace {
  readonly #options: RoomOptions;
  readonly #said = new Set<DiskUse['of']>();
  #timer: NodeJS.Timeout | undefined;
  #changed = false;

  constructor(options: RoomOptions) {
    this.#options = options;
  }

  /** A file was closed or sent. */
  changed(): void {
    this.#changed = true;
    if (this.#timer === undefined) this.#look();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #look(): void {
    this.#changed = false;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#changed) this.#look();
    }, LOOK_EVERY_MS);
    const { uses = diskUseOf, dir } = this.#options;
    // If the directory cannot be queried, the task will find out.
    uses(dir).then(
      (all) => all.forEach((use) => this.#judge(use)),
      () => undefined,
    );
  }

  #judge(use: DiskUse): void {
    const share = use.limit > 0 ? use.used / use.limit : 0;
    if (share < ROOM_AGAIN) this.#said.delete(use.of);
    if (share <= FULL || this.#said.has(use.of)) return;
    this.#said.add(use.of);
    const { log, held, reclaim } = this.#options;
    const { storedBytes, waitingBytes } = held();
    const left = use.limit - use.used;
    log.warn(
      `${NAMES[use.of]} is ${Math.floor(share * 100)} % used, ` +
        `${use.of === 'files' ? left : formatBytes(left)} left; results that are stored and still here hold ` +
        `${formatBytes(storedBytes)}, closed files that wait to be stored ${formatBytes(waitingBytes)}`,
      // With nothing to delete, no way of deleting helps.
      { hint: HINTS[storedBytes > 0 ? reclaim : 'now'] },
    );
  }
}
