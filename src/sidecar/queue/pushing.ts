// Where a file is pushed to: a checkpoint to an object of its own, a result to its key, and a result that a death may
// have left half-written to its partial key. Each push ends when it is given up, or the whole run is.
import type { RelPath } from '../../model/path.ts';
import { whileLinked } from '../../model/waiting.ts';
import type { Context } from '../run/context.ts';
import { type Doubt, pushPartial } from './partials.ts';
import type { Pusher } from './pusher.ts';

export interface PushingParts {
  readonly context: Context;
  readonly checkpoints: { readonly push: Pusher };
  readonly results: { readonly push: Pusher };
  /** Results that may be half-written, and why. */
  readonly suspects: ReadonlyMap<RelPath, Doubt>;
}

export function openPusher({ context, checkpoints, results, suspects }: PushingParts): Pusher {
  return (fileState, how) =>
    whileLinked([context.signal, how.signal], async (signal) => {
      const progress = context.progress.file();
      const onSent = (bytes: number): void => {
        how.onSent(bytes);
        progress.moved(bytes);
      };
      const handle = { ...how, signal, onSent };
      const doubt = suspects.get(fileState.path);
      try {
        const event =
          fileState.role === 'checkpoint'
            ? await checkpoints.push(fileState, handle)
            : doubt === undefined
              ? await results.push(fileState, handle)
              : await pushPartial(context, fileState, handle, doubt);
        if (event.kind === 'stored' || event.kind === 'unchanged') progress.done(event.durable.size);
        return event;
      } finally {
        progress.failed();
      }
    });
}
