// What the user asked for, after options, environment and manifest files were read and checked. Plain data: it goes
// from the launcher to the sidecar as JSON.
import type { ManifestPatterns } from '../file/manifest.ts';
import type { SlurmJob } from './slurm-job.ts';
import type { NoticeChoice } from './notice.ts';

export type ReclaimMode = 'auto' | 'now' | 'never';
/** `auto`: the level that suits the link. */
export type Compression =
  | { readonly kind: 'zstd'; readonly level: number | 'auto' }
  | { readonly kind: 'none' };

export interface StoreSettings {
  /** In the normal form of its kind of store (store/url.ts): `s3://bucket/prefix`. */
  readonly url: string;
  /** The given options of its kind of store, `path-style` or `sse=kms`; only the driver knows their meaning. */
  readonly flags: readonly string[];
  /** Continue although the server ignores create-only puts: then nothing keeps two attempts apart. */
  readonly unfenced: boolean;
}

/** Identifies this task. */
export interface Identity {
  readonly taskName: string;
  /** Undefined if there is none; in keys that is `0`. */
  readonly index: string | undefined;
  /** The variable or option that the index came from, for messages. */
  readonly indexSource: string | undefined;
  /** Restore takes only what was stored under the same run id. */
  readonly runId: string | undefined;
  /** The command line; empty for `watch` and `restore`. */
  readonly argv: readonly string[];
  /** The scheduler's own names for this job. Recorded, and never relied on. */
  readonly scheduler: Readonly<Record<string, string>>;
}

/** How to interpret the task's end. A status is as a shell reports it: 128+N if signal N ended the task. */
export interface EndRules {
  /** The run fails if a pattern of `results` has no match. */
  readonly requireResults: boolean;
  /** Pattern of the results that make the run complete; undefined: every exactly named one. */
  readonly doneWhen: string | undefined;
  /** Statuses with which the task says "checkpointed, run me again". */
  readonly againStatuses: readonly number[];
  /** Statuses with which the task has closed its files itself: nothing is suspect. */
  readonly trustedStatuses: readonly number[];
}

/** The user's own check of a set of checkpoint files. */
export interface Verification {
  /** For `sh -c`, in the work directory. */
  readonly command: string;
  readonly atRestore: boolean;
  readonly atCommit: boolean;
}

/** How capture learns that it will be stopped, and what it then sends to the task. */
export interface NoticeSettings {
  readonly sources: readonly NoticeChoice[];
  /** Signals that count as a notice: `SIGUSR1`. */
  readonly signals: readonly string[];
  /** `auto`: SIGTERM if the task handles it. Otherwise the name of a signal. */
  readonly tell: string;
}

export interface LogSettings {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  readonly format: 'text' | 'json';
  readonly file: string | undefined;
}

/** Where live numbers are published. */
export type MetricsPlace =
  | { readonly kind: 'listen'; readonly host: string; readonly port: number }
  /** Absolute path. */
  | { readonly kind: 'file'; readonly path: string };

/** Where the end of a run is reported. */
export type NotifyTarget =
  | { readonly kind: 'url'; readonly url: string }
  /** For `sh -c`. */
  | { readonly kind: 'command'; readonly command: string };

/** Who may read what a run stores, and how it reads what others have sealed. */
export interface SealSettings {
  /** Recipients, all of age or all of gpg (`gpg:...`); none: nothing is sealed. */
  readonly to: readonly string[];
  /** Absolute path. */
  readonly identityFile?: string | undefined;
  /** For `sh -c`; prints an identity. */
  readonly identityCommand?: string | undefined;
}

export interface Settings {
  readonly manifest: ManifestPatterns;
  readonly to: StoreSettings;
  /** The store is in the work directory, or nobody chose one: it is lost together with the machine. */
  readonly perishableStore: boolean;
  readonly from: StoreSettings | undefined;
  readonly identity: Identity;
  /** Absolute path. */
  readonly workdir: string;
  readonly sharedWorkdir: boolean;
  /** capture has made the work directory for this attempt, and removes it when all is stored. */
  readonly madeWorkdir?: boolean;
  /** Path of the control socket; undefined: capture chooses. */
  readonly control?: string | undefined;
  /** The file in which the task's container reports how the task ended. Absolute path. */
  readonly exitFile?: string | undefined;
  /** `capture restore` leaves its attempt to the `capture watch` that follows. */
  readonly handoff?: boolean;
  readonly reclaim: ReclaimMode;
  readonly compression: Compression;
  /** Undefined: nothing is sealed, and nothing sealed is opened. */
  readonly seal?: SealSettings | undefined;
  /** Bandwidth limit, in bytes per second. */
  readonly bandwidthBytes?: number | undefined;
  /**
   * Store the task's stdout and stderr, up to this many bytes of each. Undefined: only the end of each, if the attempt
   * fails. 0: nothing.
   */
  readonly outputLimitBytes?: number | undefined;
  /** Companions are captured this long after their last capture, unless a checkpoint comes first. */
  readonly companionIntervalMs: number;
  readonly checkpointSettleMs: number;
  readonly checkpointLast: string | undefined;
  /** How many complete generations to keep, at least 1. */
  readonly generations: number;
  /** Delete checkpoint sets when the index is done. */
  readonly dropCheckpoints?: boolean | undefined;
  readonly graceMs: number;
  readonly drainTimeoutMs: number;
  readonly rescanMs: number;
  readonly restore: boolean;
  readonly skipDone: boolean;
  /** The key of the newest record of this index when `capture array` began; empty if there was none. */
  readonly lastSeen?: string | undefined;
  readonly onLocal: 'stored' | 'newest';
  readonly preemptedStatus: number;
  /**
   * After this many attempts without a newer checkpoint, capture exits with the task's status instead of
   * `preemptedStatus`.
   */
  readonly maxAttempts?: number | undefined;
  /** The job of Slurm that this run is in. */
  readonly slurmJob?: SlurmJob | undefined;
  /** The job that a preempted run requeues. */
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

/** The index as used in keys: a task outside an array has index 0. */
export function keyIndex(identity: Identity): string {
  return identity.index ?? '0';
}
