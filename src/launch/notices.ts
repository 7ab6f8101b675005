// What a notice means for the task. A task that handles SIGTERM is told at once; any other computes on until shortly
// before the deadline. A notice is acted on once, however often its source repeats it.
import { deadlineOf } from '../model/file/deadline.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import { type Notice, sameNotice } from '../model/format/notice.ts';
import { clockMs, fromTimeOfDay } from '../native/clock.ts';
import { caughtSignals, readProc } from '../native/processes.ts';
import type { LastCall } from './last-call.ts';
import type { Task } from './task.ts';

/** signal(7): SIGTERM's bit in the masks of proc_pid_status(5). */
const SIGTERM_BIT = 1n << 14n;

/** Programs that catch SIGTERM to end their children with it. Their names have at most 15 bytes: proc_pid_comm(5). */
const BARE_LAUNCHERS: ReadonlySet<string> = new Set(
  [
    'mpirun mpiexec mpiexec.hydra orterun prterun orted prted prte hydra_pmi_proxy hydra_bstrap_pr mpispawn',
    'srun slurmstepd aprun jsrun palsd timeout tini dumb-init catatonit docker-init apptainer singularity',
    'starter starter-suid conmon podman docker sudo su strace time xvfb-run',
  ].flatMap((names) => names.split(' ')),
);

export interface NoticesOptions {
  /** `auto`, `none` or a signal's name. */
  readonly tell: string;
  /** Undefined when it does not run any more. */
  readonly task: () => Pick<Task, 'members'> | undefined;
  readonly tellTask: (signal: NodeJS.Signals) => void;
  readonly say: (line: string, level: 'info' | 'warn', fields?: MessageFields) => void;
  /** Counts the time that a notice leaves. */
  readonly lastCall: Pick<LastCall, 'begin' | 'withdraw' | 'taskDeadlineMs'>;
  /** The time that a notice leaves if it does not say an instant. */
  readonly graceMs: number;
}

export class Notices {
  readonly #options: NoticesOptions;
  #heard: readonly Notice[] = [];

  constructor(options: NoticesOptions) {
    this.#options = options;
  }

  received(notice: Notice): void {
    if (this.#isHeard(notice)) return;
    this.#heard = [...this.#heard, notice];
    const { task, tellTask, say, lastCall, graceMs } = this.#options;
    const signal = this.#atOnce();
    const atMs = notice.atMs === undefined ? undefined : fromTimeOfDay(notice.atMs);
    const deadlineMs = deadlineOf(atMs, clockMs(), graceMs);
    const isFixed = atMs !== undefined && atMs > clockMs();
    lastCall.begin({ from: notice.what, deadlineMs, isFixed });
    const untilMs = lastCall.taskDeadlineMs() ?? clockMs();
    const then =
      signal === undefined ? `the task computes on until ${timeOf(untilMs)}` : `the task gets ${signal}`;
    const line = task() === undefined ? notice.what : `${notice.what}; ${then}`;
    say(line, 'warn', { event: 'notice', ...fieldsOf(notice) });
    if (signal !== undefined) tellTask(signal);
  }

  withdrawn(notice: Notice): void {
    if (!this.#isHeard(notice)) return;
    this.#heard = this.#heard.filter((one) => !sameNotice(one, notice));
    const { say, lastCall } = this.#options;
    say(`taken back: ${notice.what}`, 'warn', { event: 'notice-withdrawn', ...fieldsOf(notice) });
    lastCall.withdraw(notice.what);
  }

  /** No time is left to compute on. */
  tellAtLast(): void {
    const { tell, tellTask } = this.#options;
    if (tell !== 'none') tellTask(tell === 'auto' ? 'SIGTERM' : (tell as NodeJS.Signals));
  }

  #isHeard(notice: Notice): boolean {
    return this.#heard.some((one) => sameNotice(one, notice));
  }

  /** What the task gets as soon as there is a notice; undefined: it computes on. */
  #atOnce(): NodeJS.Signals | undefined {
    const { tell, task } = this.#options;
    if (tell === 'none') return undefined;
    if (tell !== 'auto') return tell as NodeJS.Signals;
    const members = task()?.members() ?? [];
    return members.some(catchesTerm) ? 'SIGTERM' : undefined;
  }
}

function catchesTerm(pid: number): boolean {
  const read = (what: string): string => readProc(pid, what) ?? '';
  return handlesTerm(read('status'), read('comm'), read('cmdline'));
}

/**
 * Will a process make use of SIGTERM? It will if it catches it, and is none of the programs that only pass it on to end
 * what they have started.
 *
 * `status`, `comm` and `cmdline` as proc_pid_status(5), proc_pid_comm(5) and proc_pid_cmdline(5) have them. A name in
 * either is enough: a program may rename its main thread (Node 24: `MainThread`), and behind a script's `#!` the
 * command line begins with the interpreter.
 */
export function handlesTerm(status: string, comm: string, cmdline: string): boolean {
  const argv0 = cmdline.split('\0', 1)[0] ?? '';
  const names = [comm.trim(), argv0.slice(argv0.lastIndexOf('/') + 1)];
  if (names.some((name) => BARE_LAUNCHERS.has(name))) return false;
  return ((caughtSignals(status) ?? 0n) & SIGTERM_BIT) !== 0n;
}

function fieldsOf({ source, atMs }: Notice): MessageFields {
  return { source, deadlineMs: atMs };
}

/** `08:21:50`, of this machine's clock and zone. */
function timeOf(atMs: number): string {
  return new Date(atMs).toTimeString().slice(0, 8);
}
