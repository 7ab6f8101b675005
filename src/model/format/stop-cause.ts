// Why an attempt was asked to stop, as far as that is known: a notice, the scheduler, the runner, a signal. And the few
// words for it in a table. Pure.
import * as z from 'zod';

const text = z.string().min(1).max(1000);

export const stopCauseSchema = z.object({
  /** A few words, for a table: `time limit`. */
  why: text,
  /** For the user: `the job's time limit`. */
  reason: text,
});
export type StopCause = Readonly<z.infer<typeof stopCauseSchema>>;

/** For a table, where a file system was full. */
export const DISK_FULL = 'disk full';

/** Nobody says who sent the signal. */
export function unknownSender(signal: string): StopCause {
  return { why: signal, reason: `${signal}, sender unknown` };
}

export function isUnknown({ why, reason }: StopCause): boolean {
  return reason === unknownSender(why).reason;
}

/** What a signal says by itself. */
export function textOfSignal(signal: string): string {
  switch (signal) {
    case 'SIGINT':
      return 'SIGINT, as by Ctrl-C';
    case 'SIGXCPU':
      return 'SIGXCPU, a limit of CPU time';
    default:
      return signal;
  }
}

/** The cause that a runner left for its launcher; undefined: this text names none. */
export function parseStopCause(text: string): StopCause | undefined {
  try {
    return stopCauseSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
