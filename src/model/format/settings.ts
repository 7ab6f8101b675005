// What the user asked for, after options, environment and manifest files were read and checked. Plain data: it goes
// from the launcher to the sidecar over the channel, as JSON.
import type { ManifestPatterns } from '../file/manifest.ts';
import type { SlurmJob } from '../slurm-job.ts';
import type { NoticeChoice } from './notice.ts';

export type ReclaimMode = 'auto' | 'now' | 'never';
/** `auto`: as much as the link makes worth it. */
export type Compression =
  | { readonly kind: 'zstd'; readonly level: number | 'auto' }
  | { readonly kind: 'none' };

export interface StoreSettings {
  /** In the one form that its kind of store gives it (store/url.ts): `s3://bucket/prefix`. */
  readonly url: string;
  /** The flags of its kind that were given; only its driver knows what they mean. */
  readonly flags: readonly string[];
  /** Go on although the server ignores create-only puts: then nothing keeps two attempts apart. */
  readonly unfenced: boolean;
}

/** Who this task is. */
export interface Identity {
  readonly taskName: string;
  /** `0` in keys if there is none. */
  readonly index: string | undefined;
  /** Which variable or option the index came from, for messages. */
  readonly indexSource: string | undefined;
  /** Only what was stored under the same run id is restored. */
  readonly runId: string | undefined;
  /** The command line; empty for `watch` and `restore`. */
  readonly argv: readonly string[];
  /** The scheduler's own names for this job, recorded and never relied on. */
  readonly scheduler: Readonly<Record<string, string>>;
}

/** What the task's end means. A status is as a shell reports it: 128+N if signal N ended the task. */
export interface EndRules {
  /** The run has not succeeded while a pattern of `results` has no match. */
  readonly requireResults: boolean;
  /** Pattern of the result that counts; undefined: every exactly named one. */
  readonly doneWhen: string | undefined;
  /** The task's own "checkpointed, run me again". */
  readonly againStatuses: readonly number[];
  /** With these the task has closed its files itself: nothing is suspect. */
  readonly trustedStatuses: readonly number[];
}

/** The user's own check of a set of checkpoint files. */
export interface Verification {
  /** For `sh -c`, in the work directory. */
  readonly command: string;
  readonly atRestore: boolean;
  readonly atCommit: boolean;
}

/** How capture learns that it will be stopped, and what the task is then told. */
export interface NoticeSettings {
  readonly sources: readonly NoticeChoice[];
  /** Signals that are a notice: `SIGUSR1`. */
  readonly signals: readonly string[];
  /** `auto`: SIGTERM where the task handles it. A signal's name otherwise. */
  readonly tell: string;
}

export interface LogSettings {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  readonly format: 'text' | 'json';
  readonly file: string | undefined;
}

/** Where live numbers are shown. */
export type MetricsPlace =
  | { readonly kind: 'listen'; readonly host: string; readonly port: number }
  /** Absolute. */
  | { readonly kind: 'file'; readonly path: string };

/** Who is told how a run ended. */
export type NotifyTarget =
  | { readonly kind: 'url'; readonly url: string }
  /** For `sh -c`. */
  | { readonly kind: 'command'; readonly command: string };

export interface Settings {
  readonly manifest: ManifestPatterns;
  readonly to: StoreSettings;
  /** The store is in the work directory, or nobody chose it: it is lost together with the machine. */
  readonly perishableStore: boolean;
  readonly from: StoreSettings | undefined;
  readonly identity: Identity;
  /** Absolute path. */
  readonly workdir: string;
  readonly sharedWorkdir: boolean;
  /** Where the control socket is created; undefined: at a place that capture chooses. */
  readonly control?: string | undefined;
  /** Where the task's side writes how the task ended. Absolute path. */
  readonly exitFile?: string | undefined;
  /** `capture restore` leaves its attempt to the `capture watch` that follows. */
  readonly handoff?: boolean;
  readonly reclaim: ReclaimMode;
  readonly compression: Compression;
  /** At most so many bytes are sent in a second. */
  readonly bandwidthBytes?: number | undefined;
  /** Stores what the task writes to stdout and stderr: at most so much of each. */
  readonly outputLimitBytes?: number | undefined;
  /** Companions are captured this long after their last capture, if no checkpoint comes before. */
  readonly companionIntervalMs: number;
  readonly checkpointSettleMs: number;
  readonly checkpointLast: string | undefined;
  /** How many complete generations are kept, at least 1. */
  readonly generations: number;
  /** Checkpoint sets are deleted when the index is done. */
  readonly dropCheckpoints?: boolean | undefined;
  readonly graceMs: number;
  readonly drainTimeoutMs: number;
  readonly rescanMs: number;
  readonly restore: boolean;
  readonly skipDone: boolean;
  readonly onLocal: 'stored' | 'newest';
  readonly preemptedStatus: number;
  /**
   * After this many attempts without a newer checkpoint, capture exits with the task's status instead of
   * `preemptedStatus`.
   */
  readonly maxAttempts?: number | undefined;
  /** The job that a preempted run requeues by itself. */
  readonly requeue?: SlurmJob | undefined;
  readonly endRules: EndRules;
  readonly notices: NoticeSettings;
  readonly verify: Verification | undefined;
  /** Worker threads that read, hash and compress. */
  readonly workers: number | 'auto';
  readonly spoolDir: string | undefined;
  readonly spoolLimitBytes: number;
  readonly log: LogSettings;
  readonly metrics?: MetricsPlace | undefined;
  readonly notify?: NotifyTarget | undefined;
}

/** The index as it is in keys: a task outside an array has index 0. */
export function keyIndex(identity: Identity): string {
  return identity.index ?? '0';
}
