// The interface of a sidecar for whoever runs it: the launcher, or `capture watch`.
import type { Log } from '../log/log.ts';
import type { OutputsFrom } from '../model/format/messages.ts';
import type { RecordKind } from '../model/format/records.ts';
import type { Settings } from '../model/format/settings.ts';
import type { StopCause } from '../model/format/stop-cause.ts';
import type { LifeNumbers } from '../model/format/shared-sidecar.ts';
import type { Caller } from './run/context.ts';
import type { Shared } from './run/shared.ts';
import type { Finished } from './shutdown/finish.ts';
import type { RunEnd } from './shutdown/outcome.ts';

export interface SidecarOptions {
  readonly settings: Settings;
  /** Set if this sidecar replaces a dead one of the attempt. */
  readonly attempt: number | undefined;
  /** `capture watch`: there is no launcher that would replace this sidecar. */
  readonly standalone?: boolean;
  /** `capture watch --exit-file`: true if the file already says how the task ended. */
  readonly hasEnded?: (() => boolean) | undefined;
  /** The pid of the process that the task descends from; undefined: unknown. */
  readonly launcher?: number | undefined;
  /** As in the message `start`. */
  readonly launcherFaults?: number | undefined;
  /** About the launcher's descriptors; not set if none of the task's output is to be stored. */
  readonly outputsFrom?: OutputsFrom | undefined;
  readonly log: Log;
  /** This process if left out. */
  readonly caller?: Caller;
  /** What several runs of this process share; a single run has its own. */
  readonly shared?: Shared;
  /** Gives up a start that is still under way; has no effect afterwards. */
  readonly giveUp?: AbortSignal;
  /** Another attempt has taken over the index: the task must be stopped. */
  readonly onFenced: (message: string) => void;
  /** While we are being stopped: how many ms sending the task's last files takes, as measured. */
  readonly onDrainTakes: (ms: number) => void;
}

export interface Sidecar {
  readonly attempt: number;
  /** The restored generation, as `<attempt>-<generation>`; '' if none was restored. */
  readonly restored: string;
  readonly runToken: string;
  /** The kind of the attempt's last record, if a dead sidecar had written it: nothing is watched any more. */
  readonly endedAs?: RecordKind;
  /** Path of the control socket, for CAPTURED_SOCKET. */
  readonly socket: string | undefined;
  /** The task's first process exists. */
  taskStarted(pid: number): void;
  /** A signal that asks the task to end is on its way to it. */
  taskSignalled(atMs: number): void;
  /**
   * When the task last changed a file that it has closed since `sinceMs`, as far as the file system shows: ms since the
   * epoch, not before `sinceMs`.
   */
  lastChangeMs(sinceMs: number): number;
  /** We will be stopped at this instant, ms since the epoch; undefined: the notice was withdrawn. */
  noticed(deadlineMs: number | undefined): void;
  /** Why the task is asked to end, as soon as that is known; undefined: a notice was withdrawn. */
  stopCause(cause: StopCause | undefined): void;
  /** Looks for a later attempt now; `onFenced` is called if there is one. Never throws. */
  checkFence(): Promise<void>;
  /** Files that are closed by now should be made safe. */
  advised(): void;
  /** The task has ended: makes everything durable and writes the last record. Called once. */
  finish(end: RunEnd): Promise<Finished>;
  /** What is stored so far, and what waits. */
  numbers(): LifeNumbers;
  /** Without a `finish` before it, everything under way is given up: another sidecar continues this attempt. */
  close(): Promise<void>;
}

/** `done-already`: `--skip-done` and this index is done; nothing was started. */
export type Opened = { readonly kind: 'open'; readonly sidecar: Sidecar } | { readonly kind: 'done-already' };
