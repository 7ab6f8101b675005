// What a sidecar offers to whoever runs it: the launcher, or `capture watch`.
import type { Log } from '../log/log.ts';
import type { OutputsFrom } from '../model/format/messages.ts';
import type { RecordKind } from '../model/format/records.ts';
import type { Settings } from '../model/format/settings.ts';
import type { LifeNumbers } from '../model/format/shared-sidecar.ts';
import type { Caller } from './run/context.ts';
import type { Shared } from './run/shared.ts';
import type { Finished } from './shutdown/finish.ts';
import type { RunEnd } from './shutdown/outcome.ts';

export interface SidecarOptions {
  readonly settings: Settings;
  /** Set if a dead sidecar of this attempt is being replaced. */
  readonly attempt: number | undefined;
  /** `capture watch`: there is no launcher that would replace this sidecar. */
  readonly standalone?: boolean;
  /** `capture watch --exit-file`: something says already how the task ended. */
  readonly hasEnded?: (() => boolean) | undefined;
  /** The pid of the process that the task descends from; undefined: nobody knows which processes are the task's. */
  readonly launcher?: number | undefined;
  /** As in the message `start`. */
  readonly launcherFaults?: number | undefined;
  /** Of the launcher's descriptors; set if the task's output is to be stored. */
  readonly outputsFrom?: OutputsFrom | undefined;
  readonly log: Log;
  /** This process, if it is left out. */
  readonly caller?: Caller;
  /** What several runs of this process have together; a run alone has its own. */
  readonly shared?: Shared;
  /** Gives up a start that is still under way; means nothing afterwards. */
  readonly giveUp?: AbortSignal;
  /** Another attempt has taken over the index: the task must be stopped. */
  readonly onFenced: (message: string) => void;
  /** While we are being stopped: how long sending the task's last files takes, as measured, ms. */
  readonly onDrainTakes: (ms: number) => void;
}

export interface Sidecar {
  readonly attempt: number;
  /** Generation that was restored, as `<attempt>-<generation>`; '' if none was. */
  readonly restored: string;
  readonly runToken: string;
  /** The attempt's last record, if a sidecar that died had written it: nothing is watched any more. */
  readonly endedAs?: RecordKind;
  /** Path of the control socket, for CAPTURED_SOCKET. */
  readonly socket: string | undefined;
  /** The task's first process is there. */
  taskStarted(pid: number): void;
  /** A signal that asks the task to end is on its way to it. */
  taskSignalled(atMs: number): void;
  /**
   * When the task last changed a file that it has closed since `sinceMs`, as far as the file system shows: ms since the
   * epoch, `sinceMs` or later.
   */
  lastChangeMs(sinceMs: number): number;
  /** We will be stopped at this instant, ms since the epoch; undefined: it was taken back. */
  noticed(deadlineMs: number | undefined): void;
  /** What is closed by now should be made safe. */
  advised(): void;
  /** The task has ended: makes everything durable and writes the last record. Called once. */
  finish(end: RunEnd): Promise<Finished>;
  /** What it has stored by now, and what waits. */
  numbers(): LifeNumbers;
  /** Without an end before it, all that is under way is given up: another sidecar goes on with this attempt. */
  close(): Promise<void>;
}

/** `done-already`: `--skip-done` and this index is done; nothing was started. */
export type Opened = { readonly kind: 'open'; readonly sidecar: Sidecar } | { readonly kind: 'done-already' };
