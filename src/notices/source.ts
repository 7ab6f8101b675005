// The contract of a notice source; each source is one file in this directory. A source runs beside the task and only
// listens. It never delays the task, never keeps the process alive, and its failure never fails the run.
import type { Log } from '../log/log.ts';
import type { Notice } from '../model/format/notice.ts';

export type NoticeLog = Pick<Log, 'debug' | 'info' | 'warn'>;

/** How patient a source is. */
export interface Pace {
  /** From one asking to the next, ms. */
  readonly pollMs: number;
  /** What a metadata service gets to answer, ms: it is on this machine. */
  readonly timeoutMs: number;
  /** What Azure gets for the first list of events, ms. */
  readonly slowTimeoutMs: number;
}

export interface SourceOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly pace: Pace;
  readonly log: NoticeLog;
  /** The user named this source: then the user is warned if it cannot be heard. */
  readonly named: boolean;
  /** All notices of this source that stand now. One that was told before and is missing is withdrawn. */
  readonly tell: (standing: readonly Notice[]) => void;
  /** An answer that makes no sense: warned of once, then passed over. */
  readonly garbage: (message: string) => void;
  /** Ends the source. */
  readonly signal: AbortSignal;
}

export interface Source {
  /** Listens until the signal, or until it is clear that there is nothing to hear. Rejects only on the signal. */
  run(): Promise<void>;
  /** Tells the platform that it need not wait for us. Never rejects. */
  done?(): Promise<void>;
}

/** The one line about a source that is not there. */
export function absent({ named, log }: SourceOptions, message: string, hint?: string): void {
  if (named) log.warn(message, { hint });
  else log.info(message, { hint });
}

/** ms since the epoch of RFC 3339 (EC2) or RFC 9110 (Azure); undefined when it says no instant. */
export function instantMs(text: string | undefined): number | undefined {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

/** ` at 08:22:00Z`, with its day: it may lie days ahead. Nothing when nobody knows. */
export function atInstant(atMs: number | undefined): string {
  return atMs === undefined ? '' : ` at ${new Date(atMs).toISOString().replace('.000Z', 'Z')}`;
}
