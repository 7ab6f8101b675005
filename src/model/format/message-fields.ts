// The fields of a JSON line beside its text: which event it reports, and for which file. docs/messages.md lists both
// for those who read the lines by program.

/** docs/messages.md describes each. `message`: a text that has no event of its own. */
export const EVENTS = [
  'message',
  'mistake',
  'refused',
  'start',
  'resumed',
  'fresh',
  'done-already',
  'stored',
  'checkpoint',
  'proven',
  'summary',
  'withdrawn',
  'kept',
  'not-stored',
  'half-written',
  'damaged',
  'outage',
  'outage-over',
  'notice',
  'notice-withdrawn',
  'dry-run',
  'sidecar-restarted',
  'fenced',
  'end',
] as const;

export type EventName = (typeof EVENTS)[number];

/** `hint`: what to do about it, a `try:` line in text. The other fields are in JSON only. */
export interface MessageFields {
  readonly event?: EventName;
  readonly hint?: string | undefined;
  /** Index of the array; missing if there is none. */
  readonly index?: string | undefined;
  readonly attempt?: number | undefined;
  /** Relative to the work directory. */
  readonly path?: string | undefined;
  /** Key of the object, below the store's prefix. */
  readonly key?: string | undefined;
  /** Before compression. */
  readonly bytes?: number | undefined;
  /** How long it took. */
  readonly ms?: number | undefined;
  readonly [field: string]: unknown;
}
