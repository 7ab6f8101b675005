// Made from the tables of options: npx vitest run test/library/settings.test.ts --update. The settings of the library: each is an
// option of a command, by its name. Durations and sizes carry a unit: '30s', '1GiB'.

export interface RunSettings {
  /** The task and its arguments; no shell reads them. It replaces the command of the job file. */
  readonly command?: readonly string[] | undefined;
  /** A job file, whose name ends in .yaml. The other settings win over it. */
  readonly job?: string | undefined;
  /** final files: stored when they are closed */
  readonly results?: string | readonly string[] | undefined;
  /** files to resume from: stored together, as one moment */
  readonly checkpoints?: string | readonly string[] | undefined;
  /** files that the task reads, or keeps using: fetched before it starts */
  readonly inputs?: string | readonly string[] | undefined;
  /** append-only files that the task keeps open and needs to resume: stored as they grow */
  readonly companions?: string | readonly string[] | undefined;
  /** never read and never touched, whatever else matches */
  readonly exclude?: string | readonly string[] | undefined;
  /**
   * s3://bucket/prefix, gs://bucket/prefix, az://account/container/prefix, sftp://user@host/dir, file:///dir or a
   * directory (default: ./capture-store)
   */
  readonly to?: string | number | undefined;
  /** where inputs are looked for first; never written (default: as --to) */
  readonly from?: string | number | undefined;
  /** the last part of --to, to keep users' data apart */
  readonly namespace?: string | number | undefined;
  /** put the bucket into the path of the URL, not into the host name */
  readonly 'path-style'?: boolean | undefined;
  /** pay for the requests to somebody else's bucket */
  readonly 'request-payer'?: boolean | undefined;
  /** how the server encrypts objects, if not as the bucket says */
  readonly sse?: string | number | undefined;
  /** of objects of 128 KiB or more: STANDARD_IA, INTELLIGENT_TIERING, ... */
  readonly 'storage-class'?: string | number | undefined;
  /** a tag of each object, for rules and bills */
  readonly tag?: string | readonly string[] | undefined;
  /** use a server without create-only puts: two attempts may then collide */
  readonly unfenced?: boolean | undefined;
  /** 1 to 64 letters, digits, _ and - (default: the scheduler's, else none) */
  readonly index?: string | number | undefined;
  /** line n of it, from 0, is the index of the scheduler's task n: to run some again */
  readonly 'index-map'?: string | number | undefined;
  /** names checkpoints and records (default: base name of the task's command, or task) */
  readonly 'task-name'?: string | number | undefined;
  /** restore only what was stored under the same id, such as $SLURM_ARRAY_JOB_ID */
  readonly run?: string | number | undefined;
  /**
   * where the task runs and what is watched; auto: a fresh directory for each attempt of a run (default: the current
   * directory)
   */
  readonly workdir?: string | number | undefined;
  /** several captures in one work directory: no globs, no reclaim */
  readonly 'shared-workdir'?: boolean | undefined;
  /** delete stored local files: auto (at the end, or when space runs short), now, never (default: auto) */
  readonly reclaim?: string | number | undefined;
  /** the same as --reclaim never */
  readonly keep?: boolean | undefined;
  /** how often a network file system is scanned, at least 1s (default: 60s) */
  readonly rescan?: string | number | undefined;
  /** a pause after which new files are taken as a set; it proves nothing (default: 2s) */
  readonly 'checkpoint-settle'?: string | number | undefined;
  /** a set is proven whole only when this file is closed */
  readonly 'checkpoint-last'?: string | number | undefined;
  /** how many complete sets are kept in the store (default: 2) */
  readonly generations?: string | number | undefined;
  /** delete the sets once the index is done, with no result incomplete */
  readonly 'drop-checkpoints-when-done'?: boolean | undefined;
  /** of the files that differ in the last star of a pattern, only the n newest belong to a set (default: all) */
  readonly newest?: string | number | undefined;
  /** how often companions are stored between two checkpoints, at least 1s (default: 1m) */
  readonly 'companion-interval'?: string | number | undefined;
  /** sh -c <command> in the restored directory: if it fails, the previous set is restored */
  readonly 'verify-checkpoint'?: string | number | undefined;
  /** when that command runs: restore, commit (before a set is committed) or both (default: restore) */
  readonly 'verify-at'?: string | number | undefined;
  /** start from nothing */
  readonly 'no-restore'?: boolean | undefined;
  /** exit 0 at once when this index is done */
  readonly 'skip-done'?: boolean | undefined;
  /** which one is used if a checkpoint is here and in the store: stored, or newest (default: stored) */
  readonly 'on-local'?: string | number | undefined;
  /** the source of notices of a stop: auto (default), ec2, gce, azure, file:<path>, after:<duration> or none */
  readonly notice?: string | readonly string[] | undefined;
  /** a signal that is a notice, such as USR1 */
  readonly 'notice-on'?: string | readonly string[] | undefined;
  /** what the task gets at a notice: auto (TERM if it handles it), none or a signal (default: auto) */
  readonly 'notice-signal'?: string | number | undefined;
  /** time between SIGTERM and SIGKILL (default: the platform's time minus 3s, elsewhere 27s) */
  readonly grace?: string | number | undefined;
  /** time to store what is left after the task has ended by itself (default: 1h) */
  readonly 'drain-timeout'?: string | number | undefined;
  /** exit status that asks to be run again, 1 to 255 (default: 75) */
  readonly 'preempted-status'?: string | number | undefined;
  /** slurm: run scontrol requeue as the last step of a preempted run */
  readonly requeue?: string | number | undefined;
  /** after so many attempts without a newer checkpoint, exit with the task's status (default: no limit) */
  readonly 'max-attempts'?: string | number | undefined;
  /** exit 74 if no file ever matched a pattern of --results */
  readonly 'require-results'?: boolean | undefined;
  /** the result that counts: if it is missing, a task that exits 0 asks to be run again */
  readonly 'done-when'?: string | number | undefined;
  /** exit status of the task that means "checkpointed, run me again", 1 to 255; repeatable */
  readonly 'again-status'?: string | readonly string[] | undefined;
  /** exit status of the task that means "I have closed my files", 1 to 255; repeatable */
  readonly 'trust-exit'?: string | readonly string[] | undefined;
  /** report the end of the run to a URL (a POST of JSON) or a command (JSON on stdin) */
  readonly notify?: string | number | undefined;
  /** zstd, zstd:<1 to 19> or none; zstd:auto: more for large files while the link is slow (default: zstd:1) */
  readonly compression?: string | number | undefined;
  /** send at most so much in a second, such as 20MB/s; a notice and SIGTERM lift it (default: no limit) */
  readonly bandwidth?: string | number | undefined;
  /** threads that read, hash and compress, 1 to 16, or auto: 2, and up to 4 while cores are idle (default: auto) */
  readonly lanes?: string | number | undefined;
  /**
   * where capture copies a file that the task rewrites while it is sent (default: the directory for temporary files)
   */
  readonly spool?: string | number | undefined;
  /** the largest such copy, not compressed (default: 1GiB) */
  readonly 'spool-limit'?: string | number | undefined;
  /** store only what this recipient (age1..., or gpg:KEYID) can read; repeatable, or @file with one a line */
  readonly encrypt?: string | readonly string[] | undefined;
  /** the identity of age (AGE-SECRET-KEY-1...) that opens what is encrypted */
  readonly identity?: string | number | undefined;
  /** a command that prints the identity */
  readonly 'identity-command'?: string | number | undefined;
  /** live numbers for Prometheus, on a port or in a file */
  readonly metrics?: string | number | undefined;
  /** store the task's stdout and stderr while it runs, where they go to files or pipes, for capture logs */
  readonly 'log-output'?: boolean | undefined;
  /** do not store the end of what the task wrote to stdout and stderr when it fails */
  readonly 'no-last-lines'?: boolean | undefined;
  /** so much of each is kept: the beginning, and the newest (default: 64MiB) */
  readonly 'log-output-limit'?: string | number | undefined;
  /** the indices, such as 0-99; with --tasks only these of the file */
  readonly array?: string | number | undefined;
  /** one shell command a line, line n is index n; or a .csv or .tsv with a header, for {column} */
  readonly tasks?: string | number | undefined;
}

export interface RestoreSettings extends Omit<RunSettings, 'command' | 'job' | 'array' | 'tasks'> {
  /** claim the attempt, for the 'capture watch' that follows in the same work directory */
  readonly handoff?: boolean | undefined;
  /** the task's side writes its exit status there: it ends the watch (restore removes an old one) */
  readonly 'exit-file'?: string | number | undefined;
}

/** What says which array is meant. */
export interface ArraySettings {
  /** which task, if several share the prefix (default: the only one that is there) */
  readonly 'task-name'?: string | number | undefined;
  /** put the bucket into the path of the URL, not into the host name */
  readonly 'path-style'?: boolean | undefined;
  /** pay for the requests to somebody else's bucket */
  readonly 'request-payer'?: boolean | undefined;
}

export interface StatusSettings extends ArraySettings {
  /** the indices of the array, as the scheduler has them: 0-9999, 3,17-19,40-60:2 */
  readonly array?: string | number | undefined;
  /** one index in detail */
  readonly index?: string | number | undefined;
  /**
   * without a sign of life for so long, an attempt was probably killed; one that runs gives one each hour (default:
   * 130m)
   */
  readonly 'stale-after'?: string | number | undefined;
  /** host, results and memory of more than 100 indices, too: one request for each */
  readonly details?: boolean | undefined;
}

export interface GatherSettings extends ArraySettings {
  /** only these indices, and all of them */
  readonly array?: string | number | undefined;
  /** only results of these paths in the work directory of the task */
  readonly include?: string | readonly string[] | undefined;
  /** no results of these paths */
  readonly exclude?: string | readonly string[] | undefined;
  /**
   * the name of each result: {index}, {path}, {name} (the path without directories) and {task} (default:
   * {index}/{path})
   */
  readonly layout?: string | number | undefined;
  /** gather what is stored so far, although not all indices are done */
  readonly incomplete?: boolean | undefined;
  /** staged results, which a dying process may have closed, too, as <name>.partial-<attempt> */
  readonly 'with-partials'?: boolean | undefined;
  /** read what is there already, instead of believing its size and mtime */
  readonly checksum?: boolean | undefined;
  /** files downloaded at once (default: 16) */
  readonly parallel?: string | number | undefined;
}

export interface VerifySettings extends ArraySettings {
  /** only these indices */
  readonly array?: string | number | undefined;
  /** compare sizes, and md5 where a listing has it, instead of reading all bytes */
  readonly fast?: boolean | undefined;
}
