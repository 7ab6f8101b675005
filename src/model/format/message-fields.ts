// The fields of a JSON line besides its text: the event, and the file. docs/messages.md lists both for programs that
// read the lines.
import type { FileNotStored } from './json-output.ts';

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

/** One JSON line of capture: docs/messages.md lists the events and their fields. */
export interface MessageLine extends MessageFields {
  readonly event: EventName;
  /** 20 debug, 30 info, 40 warn, 50 error. */
  readonly level: number;
  /** Ms since the epoch. */
  readonly time: number;
  /** The text for people. Do not parse it. */
  readonly msg: string;
}

/** Of `end`: how a run ended. */
export interface EndFields {
  /** The kind of the last record. */
  readonly kind: 'preempted' | 'failed' | 'ended' | 'done';
  /** The exit status of capture. */
  readonly status: number;
  readonly reason?: string | undefined;
  readonly results: number;
  /** Of the results, before compression. */
  readonly bytes: number;
  readonly checkpoints: number;
  /** The files that are not stored. */
  readonly left: readonly FileNotStored[];
  /** The last record is written. */
  readonly recorded: boolean;
  readonly peakMemoryBytes?: number | undefined;
  readonly cpuS?: number | undefined;
}

/** Of `end`: what `capture restore` has brought. */
export interface RestoreFields {
  /** `<attempt>-<generation>` of the checkpoint; undefined if there is none. */
  readonly generation?: string | undefined;
  /** Inputs and files of the checkpoint. */
  readonly files: number;
}

/** Of `summary`: what `capture gather` has done, or with `--dry-run` would do. */
export interface GatherFields {
  /** Downloaded. */
  readonly files: number;
  /** Of these, decompressed. */
  readonly bytes: number;
  /** Files that were there already. */
  readonly present: number;
  /** Files that are missing, differ or are damaged: each has an event `damaged`, up to 20. */
  readonly missing: number;
}
