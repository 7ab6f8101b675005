// Where the push of a file goes: a checkpoint to an object of its own, a result to its key, and what a death may have
// left of a result beside that key. Each push ends when it is given up, or the whole run is.
import type { TrackEvent } from '../../core/decide.ts';
import { whileLinked } from '../../core/linked-signal.ts';
import type { RelPath } from '../../core/path.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Context } from '../context.ts';
import { pushPartial } from '../end/partials.ts';
import type { Track } from '../../core/track.ts';
import type { Aside } from './aside.ts';
import type { Pusher, PushHandle } from './pusher.ts';
import type { Results } from './results.ts';

export interface PushingParts {
  readonly context: Context;
  readonly checkpoints: Checkpoints;
  readonly results: Results;
  readonly aside: Aside;
  /** Results that may be half-written, and why. */
  readonly suspects: ReadonlyMap<RelPath, string>;
}

export function openPusher(parts: PushingParts): Pusher {
  const { context } = parts;
  return (track, how) =>
    whileLinked([context.signal, how.signal], async (signal) => {
      const progress = context.progress.file();
      const onSent = (bytes: number): void => {
        how.onSent(bytes);
        progress.moved(bytes);
      };
      try {
        const event = await push(parts, track, { ...how, signal, onSent });
        if (event.kind === 'stored' || event.kind === 'unchanged') progress.done(event.durable.size);
        return event;
      } finally {
        progress.failed();
      }
    });
}

function push(parts: PushingParts, track: Track, how: PushHandle): Promise<TrackEvent> {
  if (track.role === 'checkpoint') return parts.checkpoints.push(track, how);
  if (how.aside) return parts.aside.push(track, how);
  const why = parts.suspects.get(track.path);
  return why === undefined ? pushResult(parts, track, how) : pushPartial(parts, track, how, why);
}

async function pushResult(
  { results, aside }: PushingParts,
  track: Track,
  how: PushHandle,
): Promise<TrackEvent> {
  const { path } = track;
  const event = await results.push(track, how, () => aside.promote(path, how.signal));
  if (event.kind === 'stored' || event.kind === 'unchanged') results.noteObsolete(path, aside.forget(path));
  return event;
}
