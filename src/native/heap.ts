// How much of the heap what others have written may take. Their records and listings are bounded by it.
import v8 from 'node:v8';
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';

/** Bytes that may be kept of what others have written: half of the heap. If V8 finds no room, it ends the process. */
export function roomInHeap(): number {
  return Math.floor(v8.getHeapStatistics().heap_size_limit / 2);
}

/** Passes the items on; throws status 69 if more come than fit, at `bytesEach`. `what` names them in the error. */
export async function* fitting<T>(
  items: AsyncIterable<T>,
  bytesEach: number,
  what: string,
): AsyncGenerator<T> {
  const most = Math.floor(roomInHeap() / bytesEach);
  let count = 0;
  for await (const item of items) {
    count += 1;
    if (count > most) throw tooMany(what, most);
    yield item;
  }
}

export function tooMany(what: string, most: number): CaptureError {
  return new CaptureError(EXIT.unavailable, `${what}: there are more than ${most}, which fit into memory`, {
    hint: 'if no run has stored so many, somebody else has, or the server lists without end: use another prefix',
  });
}
