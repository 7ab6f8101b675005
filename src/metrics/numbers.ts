// What live numbers are made of, and what shows them.
import type { Sample } from '../model/format/resource-series.ts';
import type { Resources } from '../model/format/resources.ts';

/** What a run could say at any moment. */
export interface LiveNumbers {
  /** Of the oldest closed content that is not stored; 0 if there is none. */
  readonly lagMs: number;
  /** Closed and not stored. */
  readonly waitingFiles: number;
  readonly waitingBytes: number;
  /** Pushes so far, by role. */
  readonly pushed: Readonly<Record<'result' | 'checkpoint', Pushed>>;
  readonly checkpoints: number;
  /** Of the newest set of this attempt. */
  readonly newestCheckpointAtMs: number | undefined;
  /** The store does not answer. */
  readonly outage: boolean;
  /** Totals and peaks. */
  readonly used: Pick<Resources, 'task' | 'capture' | 'job'>;
  /** At the last look. */
  readonly now: Sample;
}

export interface Pushed {
  readonly files: number;
  readonly bytes: number;
  readonly failures: number;
}

export interface Metrics {
  /** For the log: `http://127.0.0.1:9464/metrics`, or the file. */
  readonly where: string;
  /** There are new numbers: writes the file. Rejects if it cannot. */
  look(): Promise<void>;
  /** Removes the file. */
  close(): Promise<void>;
}
