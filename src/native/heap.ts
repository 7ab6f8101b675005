// Limits the part of the heap for what others have written: records and listings.
import v8 from 'node:v8';
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';

/** Bytes of memory for what others have written: half of the heap. When the heap is full, V8 ends the process. */
export function roomInHeap(): number {
  return Math.floor(v8.getHeapStatistics().heap_size_limit / 2);
}

/** Passes the items on. Throws status 69 if more come than fit, at `bytesEach`; `what` names them in the error. */
export async function* fittingInHeap<T>(
  items: AsyncIterable<T>,
  bytesEach: number,
  what: string,
): AsyncGenerator<T> {
  const most = Math.floor(roomInHeap() / bytesEach);
  let count = 0;
  for await (const item of items) {
    count += 1;
    if (count > most) throw tooManyForHeap(what, most);
    yield item;
  }
}

const OF_A_STORE =
  'if no run has stored so many, somebody else has, or the server lists without end: use another prefix';

export function tooManyForHeap(what: string, most: number, hint = OF_A_STORE): CaptureError {
  return new CaptureError(EXIT.unavailable, `${what}: there are more than ${most}, which fit into memory`, {
    hint,
  });
}
