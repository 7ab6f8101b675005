// What a notice means for the task. A task that handles SIGTERM is signalled at once; any other task computes on until
// shortly before the deadline. Repetitions of a notice have no effect.
import { deadlineOf } from '../model/file/deadline.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import { type Notice, sameNotice } from '../model/format/notice.ts';
import { clockMs, fromTimeOfDay } from '../native/clock.ts';
import { caughtSignals, readProc } from '../native/processes.ts';
import type { LastCall } from './last-call.ts';
import type { Task } from './task.ts';

/** SIGTERM's bit in the masks of proc_pid_status(5); signal(7). */
const SIGTERM_BIT = 1n << 14n;

/** Programs that catch SIGTERM only to end their children. Names have at most 15 bytes: proc_pid_comm(5). */
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
  /** Undefined if the task does not run. */
  readonly task: () => Pick<Task, 'members'> | undefined;
  readonly tellTask: (signal: NodeJS.Signals) => void;
  readonly say: (line: string, level: 'info' | 'warn', fields?: MessageFields) => void;
  /** Counts down the time that a notice leaves. */
  readonly lastCall: Pick<LastCall, 'begin' | 'withdraw' | 'taskDeadlineMs'>;
  /** The time left after a notice without an instant. */
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

  /** Of the notice with this text, for a table: `SIGUSR1`, `notice (ec2)`. */
  whyOf(what: string): string {
    const source = this.#heard.find((notice) => notice.what === what)?.source ?? '';
    return source.startsWith('SIG') ? source : `notice (${source})`;
  }

  /** Signals the task at the last moment. */
  signalAtLast(): void {
    const { tell, tellTask } = this.#options;
    if (tell !== 'none') tellTask(tell === 'auto' ? 'SIGTERM' : (tell as NodeJS.Signals));
  }

  #isHeard(notice: Notice): boolean {
    return this.#heard.some((one) => sameNotice(one, notice));
  }

  /** The signal to send to the task right after a notice; undefined: it computes on. */
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
 * Will a process make use of SIGTERM? Yes if it catches the signal, and is none of the programs that only end their
 * children with it.
 *
 * `status`, `comm` and `cmdline` are the contents of proc_pid_status(5), proc_pid_comm(5) and proc_pid_cmdline(5). A
 * name in either of the last two is enough: a program may rename its main thread (Node 24: `MainThread`), and with a
 * script's `#!` the command line begins with the interpreter.
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

/** `08:21:50`, by this machine's clock and time zone. */
function timeOf(atMs: number): string {
  return new Date(atMs).toTimeString().slice(0, 8);
}
