// What the end of a run works with, and what it is told of how the task ended.
import type { TaskEnd } from '../../model/format/messages.ts';
import type { RelPath } from '../../model/path.ts';
import type { Watcher } from '../../watch/watching.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Companions } from '../checkpoints/companions.ts';
import type { Generations } from '../checkpoints/generations.ts';
import type { OpenResults } from '../checkpoints/open-results.ts';
import type { Reclaims } from '../disk/reclaims.ts';
import type { Files } from '../queue/files.ts';
import type { Recorder } from '../queue/recorder.ts';
import type { Doubt } from '../queue/partials.ts';
import type { Results } from '../queue/results.ts';
import type { Context } from '../run/context.ts';
import type { DrainWindow } from './drain-window.ts';

export interface FinishParts {
  readonly context: Context;
  readonly files: Files;
  readonly results: Results;
  readonly checkpoints: Checkpoints;
  readonly companions: Companions;
  readonly generations: Generations;
  readonly recorder: Recorder;
  readonly reclaims: Reclaims;
  readonly watcher: Watcher;
  readonly openResults: OpenResults;
  /** Paths that are pushed to their partial key from now on, and why. */
  readonly suspects: Map<RelPath, Doubt>;
  readonly window: DrainWindow;
}

/** The reason of a run whose launcher is gone: its `end` is not the task's. */
export const LAUNCHER_LOST = 'launcher lost';

export interface RunEnd {
  /** Undefined if nobody knows how the task ended (`watch`). */
  readonly end: TaskEnd | undefined;
  /** How it ended as far as anybody saw, if `end` does not say it: what it closed last is judged by this. */
  readonly seen?: TaskEnd | undefined;
  readonly preempted: boolean;
  readonly signalledAtMs: number | undefined;
  /** Ms since the epoch at which we are killed, if that is known. */
  readonly deadlineMs: number | undefined;
  /** When processes were told to end that the task left behind and that still wrote a declared file. */
  readonly writersStoppedAtMs?: number | undefined;
  /** Why the task did not end in the usual way, for the record. */
  readonly reason?: string;
}
