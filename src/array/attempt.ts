// How one attempt went, in words and as data, from the newest record that can be read of it. Pure.
import type { State } from './state.ts';
import { isLast, type CaptureRecord } from '../model/format/records.ts';

/** How an attempt ended, or that it did not say so. */
export interface AttemptView {
  readonly attempt: number;
  readonly host: string;
  /** ISO 8601, by the clock of its machine. */
  readonly startedAt: string;
  /** Of the newest record that can be read. */
  readonly seenAt: string;
  readonly lastedMs: number;
  /** `<attempt>-<generation>` that it began with. */
  readonly restored: string | undefined;
  readonly how: string;
}

/**
 * `isNewest`: it may still be running, as `state` says. `isUnreadable`: it wrote more than what can be read.
 */
export function attemptView(
  record: CaptureRecord,
  about: { readonly isNewest: boolean; readonly isUnreadable: boolean; readonly state: State },
): AttemptView {
  const { attempt, host, startedAt, at, restored } = record;
  return {
    attempt,
    host,
    startedAt,
    seenAt: at,
    lastedMs: Math.max(0, Date.parse(at) - Date.parse(startedAt)),
    restored,
    how: about.isUnreadable ? 'its records are damaged: nobody knows' : howOf(record, about),
  };
}

function howOf(record: CaptureRecord, about: { readonly isNewest: boolean; readonly state: State }): string {
  const { kind, end } = record;
  if (!isLast(kind)) {
    if (about.isNewest && about.state === 'running') return 'running';
    return about.isNewest ? 'no last record, no sign of life: probably killed' : 'no last record: killed';
  }
  const task =
    end?.signal !== undefined
      ? `the task was ended by ${end.signal}`
      : end?.code === undefined
        ? ''
        : `the task exited ${end.code}`;
  const exit = end === undefined ? '' : `capture exited ${end.status}`;
  return [kind, [task, exit, end?.reason ?? ''].filter((part) => part !== '').join('; ')]
    .filter((part) => part !== '')
    .join(': ');
}
