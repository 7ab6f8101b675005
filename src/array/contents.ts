// What is stored of one index, as its records together say: for the commands that show or check all of it.
import { type History, unionOf } from '../model/checkpoint/history.ts';
import type { StoredFile } from '../model/format/records.ts';
import type { RecordListing } from '../records/list.ts';
import { detailsIn, type IndexDetails, partialsThere } from './details.ts';
import { byPath } from './natural-order.ts';
import type { Place } from './place.ts';

export interface Contents extends IndexDetails {
  readonly history: History;
  /** By path, as all files here. */
  readonly results: readonly StoredFile[];
  /** Of other run ids. */
  readonly otherResults: readonly StoredFile[];
  /** What killed attempts have left half-written, as far as it is still there: a later attempt may have deleted it. */
  readonly partials: readonly StoredFile[];
}

/** A request for each attempt, list segment and half-written result. */
export async function contentsIn(
  place: Place,
  listing: RecordListing,
  signal: AbortSignal,
): Promise<Contents> {
  const details = await detailsIn(place, listing, signal);
  const history = unionOf(details.attempts, details.attempts.at(-1)?.record.runId);
  return {
    ...details,
    history,
    results: byPath(history.results.values()),
    otherResults: byPath(history.foreignResults.values()),
    partials: byPath(await partialsThere(place, history.partials, signal)),
  };
}
