// The contract of a notice source; each source is one file in this directory. A source runs beside the task and only
// listens. It never delays the task, never keeps the process alive, and its failure never fails the run.
import type { Log } from '../log/log.ts';
import type { Notice } from '../model/format/notice.ts';

export type NoticeLog = Pick<Log, 'debug' | 'info' | 'warn'>;

/** Polling intervals and timeouts of a source. */
export interface Pace {
  /** Interval between two requests, ms. */
  readonly pollMs: number;
  /** Timeout of a metadata service, ms: it is on this machine. */
  readonly timeoutMs: number;
  /** Timeout of Azure's first list of events, ms. */
  readonly slowTimeoutMs: number;
}

export interface SourceOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly pace: Pace;
  readonly log: NoticeLog;
  /** The user named this source: then a source that cannot be reached is a warning. */
  readonly named: boolean;
  /** Reports all current notices of this source. One that was reported before and is missing is withdrawn. */
  readonly tell: (standing: readonly Notice[]) => void;
  /** Reports an answer that makes no sense: warned about once, then ignored. */
  readonly garbage: (message: string) => void;
  /** Ends the source. */
  readonly signal: AbortSignal;
}

export interface Source {
  /** Listens until the signal, or until it is clear that the source is not here. Rejects only on the signal. */
  run(): Promise<void>;
  /** Tells the platform that it need not wait for capture. Never rejects. */
  done?(): Promise<void>;
}

/** The message about a source that is not here. */
export function reportAbsent({ named, log }: SourceOptions, message: string, hint?: string): void {
  if (named) log.warn(message, { hint });
  else log.info(message, { hint });
}

/** ms since the epoch, from RFC 3339 (EC2) or RFC 9110 (Azure); undefined if it is not an instant. */
export function instantMs(text: string | undefined): number | undefined {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

/** ` at 08:22:00Z`, with its date if it is days ahead. Empty if the instant is unknown. */
export function atInstant(atMs: number | undefined): string {
  return atMs === undefined ? '' : ` at ${new Date(atMs).toISOString().replace('.000Z', 'Z')}`;
}
