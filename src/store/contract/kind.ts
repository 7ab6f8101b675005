// What capture must know of a kind of store before one is opened: how its URL is written, and where it stands. Pure.
// Each driver has it in a file of its own (`url.ts`): the launcher must not load what the driver needs.
import type { Mistake } from '../../model/errors.ts';

export interface StoreKind {
  /** How its URL is written, for messages: `s3://bucket/prefix`. */
  readonly form: string;
  /** The one form of a URL of this kind that the rest of capture works with, or why it cannot be a store. */
  readonly parse: (given: GivenUrl) => string | Mistake;
  /** The directory of this machine where the store with this URL stands, absolute; undefined when it is elsewhere. */
  readonly directoryOf: (url: string) => string | undefined;
  /** What to give instead of a URL of this other scheme, where this kind can do that. */
  readonly insteadOf?: (scheme: string) => string | undefined;
}

/** A URL as the user has written it. */
export interface GivenUrl {
  readonly text: string;
  /** What it came from: `--to`, or `CAPTURE_TO`. */
  readonly source: string;
  /** Both, for the beginning of a message. */
  readonly shown: string;
}
