// The fields of a JSON line besides its text: the event, and the file. docs/messages.md lists both for programs that
// read the lines.

/** docs/messages.md describes each. `message`: a text without an event of its own. */
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

/** `hint`: what to do; in text output it is a `try:` line. The other fields appear in JSON only. */
export interface MessageFields {
  readonly event?: EventName;
  readonly hint?: string | undefined;
  /** Index in the array; missing if there is none. */
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
