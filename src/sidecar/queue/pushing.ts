// Where the push of a file goes: a checkpoint to an object of its own, a result to its key, and what a death may have
// left of a result beside that key. Each push ends when it is given up, or the whole run is.
import { whileLinked } from '../../model/linked-signal.ts';
import type { RelPath } from '../../model/path.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Context } from '../run/context.ts';
import { pushPartial } from './partials.ts';
import type { Pusher } from './pusher.ts';
import type { Results } from './results.ts';

export interface PushingParts {
  readonly context: Context;
  readonly checkpoints: Checkpoints;
  readonly results: Results;
  /** Results that may be half-written, and why. */
  readonly suspects: ReadonlyMap<RelPath, string>;
}

export function openPusher({ context, checkpoints, results, suspects }: PushingParts): Pusher {
  return (track, how) =>
    whileLinked([context.signal, how.signal], async (signal) => {
      const progress = context.progress.file();
      const onSent = (bytes: number): void => {
        how.onSent(bytes);
        progress.moved(bytes);
      };
      const handle = { ...how, signal, onSent };
      const why = suspects.get(track.path);
      try {
        const event =
          track.role === 'checkpoint'
            ? await checkpoints.push(track, handle)
            : why === undefined
              ? await results.push(track, handle)
              : await pushPartial(context, track, handle, why);
        if (event.kind === 'stored' || event.kind === 'unchanged') progress.done(event.durable.size);
        return event;
      } finally {
        progress.failed();
      }
    });
}
