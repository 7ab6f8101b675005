// The typed messages between launcher and sidecar, over the fork channel, or over a socket if tasks share a sidecar. The
// launcher decides about the task; the sidecar decides about files and the store.
import type { ExitStatus } from '../exit-status.ts';
import type { Notice } from './notice.ts';
import type { Settings } from './settings.ts';

/** How a process ended, as waitpid(2) has it. A signal is `SIGTERM`, ..., and `SIG34` where it has no other name. */
export type Ended =
  | { readonly code: number; readonly signal: undefined }
  | { readonly code: undefined; readonly signal: string };

/** What processes have used that have ended, and the children that they have waited for (getrusage(2)). */
export interface Usage {
  readonly cpuS: number;
  /** The most memory that any one of them ever had. */
  readonly maxRssBytes: number;
}

/** How the task's main process ended. */
export type TaskEnd = Ended & {
  /** When the launcher learnt of it, ms since the epoch. */
  readonly atMs: number;
};

/**
 * Where stdout and stderr stood when the launcher began, bytes: all that follows is of this attempt. Only the launcher
 * knows it still when a sidecar is replaced that had stored nothing of them.
 */
export type OutputsFrom = readonly [stdout: number, stderr: number];

export type ToSidecar =
  /** The first message. `attempt` is set if a dead sidecar is being replaced: then this one must not claim anew. */
  | {
      readonly kind: 'start';
      readonly settings: Settings;
      readonly attempt: number | undefined;
      /** Offset of the launcher's clock, which gives the instants in messages. */
      readonly clockOffsetMs: number;
      /** Set if the task's output is to be stored. */
      readonly outputsFrom?: OutputsFrom | undefined;
      /**
       * To a replacement: minor faults of the launcher's children that have ended, as long as the task's main process is
       * none of them (proc_pid_stat(5), cminflt). If the count has grown since, one more has ended.
       */
      readonly launcherFaults?: number | undefined;
      /** The launcher's, for the user's own check; left out if the sidecar has the same. */
      readonly env?: NodeJS.ProcessEnv | undefined;
    }
  | { readonly kind: 'task-started'; readonly pid: number }
  /** A signal is on its way to the task, or the launcher received it: from now on a close may be a death's. */
  | {
      readonly kind: 'task-signalled';
      readonly signal: string;
      readonly atMs: number;
      readonly lastCall: boolean;
    }
  /** We will be stopped at this instant, ms since the epoch; undefined: it was taken back. */
  | { readonly kind: 'noticed'; readonly deadlineMs: number | undefined }
  /** The task and all that it left behind are gone: scan, drain, write the last record, answer `ended`. */
  | {
      readonly kind: 'task-ended';
      readonly end: TaskEnd;
      /** A notice or SIGTERM came before the task ended. */
      readonly preempted: boolean;
      /** Ms since the epoch at which we will be killed, if that is known. */
      readonly deadlineMs: number | undefined;
      /** When processes were told to end that the task left behind and that still wrote a declared file. */
      readonly writersStoppedAtMs?: number | undefined;
      /** Who asked us to stop, for the record. */
      readonly reason?: string | undefined;
      /** What the task has used. */
      readonly usage?: Usage | undefined;
    }
  /** The task could not be started at all: write `failed-<status>`, as this attempt has stored nothing. */
  | {
      readonly kind: 'task-not-started';
      readonly status: ExitStatus;
      readonly reason: string;
      /** We were asked to end before it could be started. */
      readonly preempted: boolean;
    };

/** What the sidecar reports of its own accord while the task runs. */
export type News = Extract<
  FromSidecar,
  { readonly kind: 'signal-seen' | 'notice' | 'notice-withdrawn' | 'drain-takes' | 'fenced' }
>;

export type FromSidecar =
  /** The module is loaded and its signal handlers are set; sent before `start` is read. */
  | { readonly kind: 'hello'; readonly pid: number }
  /** Restored, watching: the task may start. */
  | {
      readonly kind: 'ready';
      readonly attempt: number;
      /** Generation that was restored, as `<attempt>-<generation>`; '' if none was. */
      readonly restored: string;
      /** Unique id of this run of the task, for CAPTURED_RUN. */
      readonly runToken: string;
      /** Path of the control socket, for CAPTURED_SOCKET. */
      readonly socket?: string | undefined;
    }
  /** `--skip-done`: this index is done already. */
  | { readonly kind: 'done-already' }
  /** Nothing was started: the launcher prints the message and exits. */
  | {
      readonly kind: 'refused';
      readonly status: ExitStatus;
      readonly message: string;
      readonly hint: string | undefined;
    }
  /** A signal that the sidecar does not obey, reported so that the launcher knows it was broadcast. */
  | { readonly kind: 'signal-seen'; readonly signal: string; readonly atMs: number }
  /** A source says that we will be stopped, or takes that back. */
  | { readonly kind: 'notice' | 'notice-withdrawn'; readonly notice: Notice }
  /** After `noticed`: how long sending the task's last files takes, as measured. */
  | { readonly kind: 'drain-takes'; readonly ms: number }
  /** Another attempt has taken over this index: stop the task. */
  | { readonly kind: 'fenced'; readonly message: string }
  | {
      /** Everything is written. */
      readonly kind: 'ended';
      /** capture's own verdict; undefined: the task's status stands. */
      readonly status: ExitStatus | undefined;
      /** Nothing that the task closed is only in the work directory. */
      readonly isSaved: boolean;
    };
