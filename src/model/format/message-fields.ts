// What stands in a JSON line beside its text: which event it tells of, and of which file. docs/messages.md lists
// both for those who read the lines by program.

/** Each is described in docs/messages.md. `message`: a text that has no event of its own. */
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

/** `hint`: what to do about it, a `try:` line in text. The others stand in JSON only. */
export interface MessageFields {
  readonly event?: EventName;
  readonly hint?: string | undefined;
  /** Of the array; missing when there is none. */
  readonly index?: string | undefined;
  readonly attempt?: number | undefined;
  /** Relative to the work directory. */
  readonly path?: string | undefined;
  /** Of the object, below the store's prefix. */
  readonly key?: string | undefined;
  /** Before compression. */
  readonly bytes?: number | undefined;
  /** How long it took. */
  readonly ms?: number | undefined;
  readonly [field: string]: unknown;
}
