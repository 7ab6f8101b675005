// The live numbers, and the interface of their outputs.
import type { Sample } from '../model/format/resource-series.ts';
import type { Resources } from '../model/format/resources.ts';

/** A run's numbers at any moment. */
export interface LiveNumbers {
  /** Age of the oldest closed content that is not stored; 0 if there is none. */
  readonly lagMs: number;
  /** Files that are closed and not stored. */
  readonly waitingFiles: number;
  readonly waitingBytes: number;
  /** Pushes so far, by role. */
  readonly pushed: Readonly<Record<'result' | 'checkpoint', Pushed>>;
  readonly checkpoints: number;
  /** Time of the newest set of this attempt. */
  readonly newestCheckpointAtMs: number | undefined;
  /** True while the store does not answer. */
  readonly outage: boolean;
  /** Totals and peaks. */
  readonly used: Pick<Resources, 'task' | 'capture' | 'job'>;
  /** From the last sample. */
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
  /** Updates the file with new numbers. Rejects if it cannot. */
  look(): Promise<void>;
  /** Removes the file. */
  close(): Promise<void>;
}
