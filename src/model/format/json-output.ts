// What commands print with `--json`, and what the library (src/library) resolves to. Later versions may add fields, but
// keep these. Plain types, without those of packages: programs of others are compiled against them.

/**
 * - `done`: the task exited 0 and everything is stored.
 * - `failed`: the task failed, or not everything is stored.
 * - `preempted`: the task is to run again.
 * - `running`: the newest attempt has a recent heartbeat.
 * - `stale`: it has had none for a while, or its job is gone, so it was probably killed.
 * - `ended`: a `capture watch`, which does not know how the task ended.
 * - `missing`: no attempt has started.
 */
export type State = 'failed' | 'stale' | 'missing' | 'preempted' | 'ended' | 'running' | 'done';

/** `capture status <url> --json`. Times are ISO 8601, by the store's clock. */
export interface ArrayStatus {
  readonly format: 1;
  /** URL of the store. */
  readonly store: string;
  readonly task: string;
  readonly now: string;
  /** How many indices are in each state. */
  readonly counts: Readonly<Record<State, number>>;
  /** In order. Without `--array`, only indices with stored objects. */
  readonly indices: readonly IndexStatus[];
}

/** The fields after `state` are absent if the index is `missing`. */
export interface IndexStatus extends Partial<StoredStatus> {
  readonly index: string;
  readonly state: State;
  /** For `failed`: capture's exit status. */
  readonly status?: number | undefined;
  /** Set if it was preempted, and Slurm runs it again. */
  readonly requeued?: true | undefined;
  /** How many attempts have a record. */
  readonly attempts?: number;
  /** The newest one, from 1. */
  readonly attempt?: number;
  /** When it was claimed. */
  readonly startedAt?: string | undefined;
  /** Its last sign of life. */
  readonly seenAt?: string | undefined;
  /** When the newest checkpoint was committed. */
  readonly checkpointAt?: string | undefined;
  /** Key of the newest record. */
  readonly record?: string;
}

/** With `--details`: what is stored of an index, according to its newest record. */
export interface StoredStatus {
  readonly host: string;
  readonly results: number;
  /** Before compression. */
  readonly bytes: number;
  /** The peak memory of the newest attempt's task; undefined if it was not measured. */
  readonly peakMemoryBytes: number | undefined;
  /** Why the newest attempt failed or was asked to end, in a few words (`time limit`). */
  readonly why: string | undefined;
}

/** `capture status <url> <index> --json`: what the records of one index say. */
export interface OneIndexStatus {
  readonly index: string;
  readonly task: string;
  readonly state: State;
  /** For `failed`: capture's exit status. */
  readonly status?: number | undefined;
  /** Set if it was preempted, and Slurm runs it again. */
  readonly requeued?: true | undefined;
  /** Its newest record cannot be read; the fields below come from earlier records. */
  readonly isDamaged: boolean;
  /** In order. */
  readonly attempts: readonly AttemptStatus[];
  /** The checkpoint sets, newest first. */
  readonly generations: readonly CheckpointStatus[];
  readonly results: readonly FileStatus[];
  /** Staged results, which may be half-written. */
  readonly partials: readonly FileStatus[];
  /** Files that are not stored. */
  readonly left: readonly FileNotStored[];
  /** Of the newest attempt, if it has failed or vanished: the last lines of its output. */
  readonly lastOutput: readonly LastOutput[];
  /** Why there are none. */
  readonly noOutput?: string | undefined;
  /** From the newest attempt with recorded resources. */
  readonly resources?: (ResourcesStatus & { readonly attempt: number }) | undefined;
}

/** How an attempt ended, or that it left no record of its end. */
export interface AttemptStatus {
  readonly attempt: number;
  readonly host: string;
  /** ISO 8601, by the clock of its machine. */
  readonly startedAt: string;
  /** Time of its newest readable record. */
  readonly seenAt: string;
  readonly lastedMs: number;
  /** `<attempt>-<generation>` of the checkpoint that it started from. */
  readonly restored?: string | undefined;
  /** Why it failed or was asked to end, in a few words (`time limit`); undefined: it is done, or that is not known. */
  readonly why?: string | undefined;
  readonly how: string;
}

export interface CheckpointStatus {
  /** `<attempt>-<generation>` is the name of the set. */
  readonly attempt: number;
  readonly generation: number;
  /** ISO 8601. */
  readonly at: string;
  readonly members: readonly FileStatus[];
  /** Append-only files, as far as they belong to the set. */
  readonly companions: readonly { readonly path: string; readonly size: number; readonly mode: number }[];
  readonly suspect?: boolean | undefined;
  readonly incomplete?: boolean | undefined;
  readonly instant?: boolean | undefined;
  readonly unproven?: boolean | undefined;
  /** The evidence that its files belong to one moment. */
  readonly proof?: string | undefined;
}

/** One stored object and the state of the file that it holds. */
export interface FileStatus {
  /** Relative to the work directory. */
  readonly path: string;
  readonly kind: 'file' | 'link';
  /** Key of the object, below the store's prefix. */
  readonly key: string;
  readonly attempt: number;
  /** Of the uncompressed bytes; for a link, of its target. */
  readonly md5: string;
  /** Before compression. */
  readonly size: number;
  readonly storedSize?: number | undefined;
  readonly compressed: boolean;
  /** Ns since the epoch: too large for a number. */
  readonly mtimeNs: string;
  readonly mode: number;
  readonly suspect?: boolean | undefined;
}

/** A declared file that is not stored. */
export interface FileNotStored {
  readonly path: string;
  readonly why: string;
}

export interface LastOutput {
  /** `output`: stdout and stderr are one file. */
  readonly stream: 'output' | 'stdout' | 'stderr';
  /** Oldest first, at least one, at most 20. What the task wrote, so not safe to show as it is. */
  readonly lines: readonly string[];
}

export interface ResourcesStatus {
  /** The task's processes. */
  readonly task?:
    | {
        readonly cpuS: number;
        readonly peakMemoryBytes: number;
        readonly readBytes?: number | undefined;
        readonly writtenBytes?: number | undefined;
      }
    | undefined;
  readonly capture: { readonly cpuS: number; readonly peakMemoryBytes: number };
  /** The fullest cgroup with a limit: a job, a pod. */
  readonly job?: { readonly peakMemoryBytes: number; readonly limitBytes: number } | undefined;
  /** When the first step of the series begins, ISO 8601. */
  readonly from: string;
  readonly stepS: number;
  /** By metric (docs/object-layout/resources.md): one number for each step, a multiple of `unit`; null if nothing was measured. */
  readonly series: Readonly<Record<string, SeriesStatus | undefined>>;
}

export interface SeriesStatus {
  readonly unit: number;
  readonly mean: readonly (number | null)[];
  readonly max: readonly (number | null)[];
}

/** A line of `capture verify <url> --json`. */
export interface VerifiedIndex {
  readonly index: string;
  readonly state: State;
  readonly objects: number;
  /** Size of the files, before compression. */
  readonly bytes: number;
  readonly damaged: readonly Damage[];
  /** Files that its newest attempt could not store, and files of earlier attempts that are not stored whole. */
  readonly left: readonly FileNotStored[];
  /** How many sets are recorded. */
  readonly checkpoints: number;
  /** `<attempt>-<generation>` of the set that a restart would use; undefined if no set is whole. */
  readonly restart?: string | undefined;
  /** One line for each record that could not be read. */
  readonly problems: readonly string[];
}

export interface Damage {
  readonly path: string;
  readonly key: string;
  /** `<attempt>-<generation>` of the newest set that needs the object; undefined for a result. */
  readonly generation?: string | undefined;
  readonly why: string;
}
