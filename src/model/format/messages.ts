// The typed messages between launcher and sidecar, over the fork channel, or over a socket if tasks share a sidecar.
// The launcher decides about the task; the sidecar decides about files and the store.
import type { ExitStatus } from '../exit-status.ts';
import type { Notice } from './notice.ts';
import type { OutOfMemory } from './out-of-memory.ts';
import type { Settings } from './settings.ts';
import type { StopCause } from './stop-cause.ts';

/** How a process ended, in the terms of waitpid(2). A signal is `SIGTERM` and so on, or `SIG34` if it has no name. */
export type Ended =
  | { readonly code: number; readonly signal: undefined }
  | { readonly code: undefined; readonly signal: string };

/** Resource usage of processes that have ended, and of the children that they have waited for (getrusage(2)). */
export interface Usage {
  readonly cpuS: number;
  /** The largest peak of any one of them. */
  readonly maxRssBytes: number;
}

/** How the task's main process ended. */
export type TaskEnd = Ended & {
  /** When the launcher learnt that the task had ended, ms since the epoch. */
  readonly atMs: number;
};

/**
 * Where the sidecar reads one of the task's streams. If a sidecar died before it had stored any output, only the launcher
 * can tell its replacement.
 */
export interface OutputFrom {
  /** The launcher's descriptor: 1 or 2, or that of the copy of what goes through a pipe. */
  readonly fd: number;
  /** The byte offset in that file when the launcher began: everything from here on is this attempt's output. */
  readonly firstByte: number;
  /** It is a pipe that the launcher cannot copy: why. */
  readonly notCopied?: string;
}

export type OutputsFrom = readonly [stdout: OutputFrom, stderr: OutputFrom];

export type ToSidecar =
  /** The first message. `attempt` is set if this sidecar replaces a dead one: then it must not claim a new attempt. */
  | {
      readonly kind: 'start';
      readonly settings: Settings;
      readonly attempt: number | undefined;
      /** Offset of the launcher's clock, which all instants in messages refer to. */
      readonly clockOffsetMs: number;
      /** Not set if none of the task's output is to be stored. */
      readonly outputsFrom?: OutputsFrom | undefined;
      /**
       * For a replacement: minor faults of the launcher's ended children, as long as the task's main process is not
       * among them (proc_pid_stat(5), cminflt). If the count has grown since, another child has ended.
       */
      readonly launcherFaults?: number | undefined;
      /** The launcher's environment, for the user's own check; absent if the sidecar has the same. */
      readonly env?: NodeJS.ProcessEnv | undefined;
    }
  | { readonly kind: 'task-started'; readonly pid: number }
  /**
   * The launcher is sending a signal to the task, or has received it. From now on the kernel may close files for a
   * dying process.
   */
  | {
      readonly kind: 'task-signalled';
      readonly signal: string;
      readonly atMs: number;
      readonly lastCall: boolean;
    }
  /** capture will be stopped at this instant, ms since the epoch; undefined: the notice was withdrawn. */
  | { readonly kind: 'noticed'; readonly deadlineMs: number | undefined }
  /** Why capture was asked to stop, as soon as that is known; undefined: the notice was withdrawn. */
  | { readonly kind: 'stop-cause'; readonly cause: StopCause | undefined }
  /** The task and all processes that it left behind have ended: scan, drain, write the last record, answer `ended`. */
  | {
      readonly kind: 'task-ended';
      readonly end: TaskEnd;
      /** A notice or SIGTERM came before the task ended. */
      readonly preempted: boolean;
      /** When capture itself will be killed, ms since the epoch, if that is known. */
      readonly deadlineMs: number | undefined;
      /** When the launcher stopped processes that the task left behind and that still wrote a declared file. */
      readonly writersStoppedAtMs?: number | undefined;
      /** Resource usage of the task. */
      readonly usage?: Usage | undefined;
      /** Processes that the kernel killed for lack of memory while the task ran. */
      readonly outOfMemory?: OutOfMemory | undefined;
    }
  /** The task could not be started at all: write `failed-<status>`. This attempt has stored nothing. */
  | {
      readonly kind: 'task-not-started';
      readonly status: ExitStatus;
      readonly reason: string;
      /** capture was asked to end before it could start the task. */
      readonly preempted: boolean;
    };

/** The launcher's question whether its own sidecar hangs, and the answer. No run hears of them. */
export interface Ask {
  readonly kind: 'ask';
}
export interface Alive {
  readonly kind: 'alive';
}

/** Unsolicited reports of the sidecar while the task runs. */
export type SidecarReport = Extract<
  FromSidecar,
  { readonly kind: 'signal-seen' | 'notice' | 'notice-withdrawn' | 'drain-takes' | 'fenced' }
>;

export type FromSidecar =
  /** The module is loaded and its signal handlers are set; sent before `start` is read. */
  | { readonly kind: 'hello'; readonly pid: number }
  /** The restore is complete and the watch is set: the task may start. */
  | {
      readonly kind: 'ready';
      readonly attempt: number;
      /** The restored generation, as `<attempt>-<generation>`; '' if none was restored. */
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
  /**
   * The sidecar received a signal that it does not obey. The report shows the launcher that the signal was broadcast.
   */
  | { readonly kind: 'signal-seen'; readonly signal: string; readonly atMs: number }
  /** A source says that capture will be stopped, or withdraws that. */
  | { readonly kind: 'notice' | 'notice-withdrawn'; readonly notice: Notice }
  /** After `noticed`: the measured time to send the task's last files. */
  | { readonly kind: 'drain-takes'; readonly ms: number }
  /** Another attempt has taken over this index: stop the task. */
  | { readonly kind: 'fenced'; readonly message: string }
  | {
      /** Everything is written. */
      readonly kind: 'ended';
      /** capture's own status; undefined: the task's status stands. */
      readonly status: ExitStatus | undefined;
      /** Everything that the task closed is stored. */
      readonly isSaved: boolean;
    };
