// What a run says of itself while all goes well: at most one line a minute, and only if something has happened. A
// change arms its only timer; a task that writes nothing has none.
import type { Log } from '../../log/log.ts';
import { formatAge, formatBytes, formatMs, plural } from '../../model/units.ts';

const EVERY_MS = 60_000;
/** From this age on, the line says what waits. */
const NAMED_FROM_MS = 10_000;

/** What this attempt has stored by now, and the age of the oldest closed content that it has not stored. */
export interface SoFar {
  readonly checkpoints: number;
  readonly newestAgeMs: number;
  readonly results: number;
  readonly bytes: number;
  readonly lag: { readonly ms: number; readonly files: number; readonly path: string } | undefined;
}

export interface MinuteLine {
  /** Something was closed, stored or committed. */
  changed(): void;
  close(): void;
}

export function openMinuteLine(log: Log, soFar: () => SoFar): MinuteLine {
  let timer: NodeJS.Timeout | undefined;
  const arm = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      const now = soFar();
      const text = minuteLine(now);
      if (text === '') return;
      const { lag, ...stored } = now;
      log.info(text, { event: 'summary', ...stored, lagMs: lag?.ms ?? 0, waiting: lag?.files ?? 0 });
      // What waits may wait for long, and nothing may change meanwhile.
      if (lag !== undefined) arm();
    }, EVERY_MS);
  };
  return { changed: arm, close: () => clearTimeout(timer) };
}

/**
 * `12 checkpoints safe, newest 8 s old; 340 results stored, 2.1 GiB; behind by 300 ms`; '' if there is nothing to
 * say.
 */
export function minuteLine({ checkpoints, newestAgeMs, results, bytes, lag }: SoFar): string {
  const said: string[] = [];
  if (checkpoints > 0) {
    said.push(`${plural(checkpoints, 'checkpoint')} safe, newest ${formatAge(newestAgeMs)} old`);
  }
  if (results > 0) said.push(`${plural(results, 'result')} stored, ${formatBytes(bytes)}`);
  if (lag !== undefined) {
    const what =
      lag.ms < NAMED_FROM_MS
        ? ''
        : `: ${plural(lag.files, 'closed file')} not stored yet, the oldest is ${lag.path}`;
    said.push(`behind by ${formatMs(lag.ms)}${what}`);
  }
  return said.join('; ');
}
