// What a notice means for the task: it is told at once where it makes use of that, else it computes on until
// shortly before the deadline. A notice is acted on once, however often its source repeats it.
import type { MessageFields } from '../model/format/message-fields.ts';
import { sameNotice, type Notice } from '../model/format/notice.ts';
import { clockMs } from '../native/clock.ts';
import { readProc } from '../native/processes.ts';
import type { Task } from './task.ts';
import { handlesTerm } from './term-handlers.ts';

export interface NoticesOptions {
  /** `auto`, `none` or a signal's name. */
  readonly tell: string;
  /** Undefined when it does not run any more. */
  readonly task: () => Pick<Task, 'members'> | undefined;
  readonly tellTask: (signal: NodeJS.Signals) => void;
  readonly say: (line: string, level: 'info' | 'warn', fields?: MessageFields) => void;
  readonly begin: (notice: Notice) => void;
  readonly withdraw: (notice: Notice) => void;
  /** When the task must be gone, ms since the epoch. */
  readonly taskDeadlineMs: () => number | undefined;
}

export interface Notices {
  received(notice: Notice): void;
  withdrawn(notice: Notice): void;
  /** No time is left to compute on. */
  tellAtLast(): void;
}

export function createNotices(options: NoticesOptions): Notices {
  const { tell, task, tellTask, say } = options;
  let heard: readonly Notice[] = [];
  const isHeard = (notice: Notice): boolean => heard.some((one) => sameNotice(one, notice));
  const atOnce = (): NodeJS.Signals | undefined => {
    if (tell === 'none') return undefined;
    if (tell !== 'auto') return tell as NodeJS.Signals;
    const members = task()?.members() ?? [];
    return members.some(catchesTerm) ? 'SIGTERM' : undefined;
  };
  return {
    received: (notice) => {
      if (isHeard(notice)) return;
      heard = [...heard, notice];
      const signal = atOnce();
      const isRunning = task() !== undefined;
      options.begin(notice);
      const untilMs = options.taskDeadlineMs() ?? clockMs();
      const then =
        signal === undefined ? `the task computes on until ${timeOf(untilMs)}` : `the task gets ${signal}`;
      const line = isRunning ? `${notice.what}; ${then}` : notice.what;
      say(line, 'warn', { event: 'notice', ...told(notice) });
      if (signal !== undefined) tellTask(signal);
    },
    withdrawn: (notice) => {
      if (!isHeard(notice)) return;
      heard = heard.filter((one) => !sameNotice(one, notice));
      say(`taken back: ${notice.what}`, 'warn', { event: 'notice-withdrawn', ...told(notice) });
      options.withdraw(notice);
    },
    tellAtLast: () => {
      if (tell !== 'none') tellTask(tell === 'auto' ? 'SIGTERM' : (tell as NodeJS.Signals));
    },
  };
}

function catchesTerm(pid: number): boolean {
  const read = (what: string): string => readProc(pid, what) ?? '';
  return handlesTerm(read('status'), read('comm'), read('cmdline'));
}

function told({ source, atMs }: Notice): MessageFields {
  return { source, deadlineMs: atMs };
}

/** `08:21:50`, of this machine's clock and zone. */
function timeOf(atMs: number): string {
  return new Date(atMs).toTimeString().slice(0, 8);
}
