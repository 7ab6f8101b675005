// How one attempt went, in words and as data. The source is its newest readable record, or the name of one that cannot
// be read. Pure.
import type { NamedRecord } from './details.ts';
import { DAMAGED, stateText } from './state.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import type { AttemptStatus, State } from '../model/format/json-output.ts';
import { isLast, type CaptureRecord } from '../model/format/records.ts';
import { LAUNCHER_LOST } from '../model/outcome/verdict.ts';

export interface AboutAttempt {
  /** It may still be running; `state` decides. */
  readonly isNewest: boolean;
  readonly state: State;
  /** Its newest record, if that record cannot be read. */
  readonly damaged: NamedRecord | undefined;
}

export function attemptView(record: CaptureRecord, about: AboutAttempt): AttemptStatus {
  const { attempt, host, startedAt, at, restored } = record;
  return {
    attempt,
    host,
    startedAt,
    seenAt: at,
    lastedMs: Math.max(0, Date.parse(at) - Date.parse(startedAt)),
    restored,
    why: about.damaged === undefined ? whyOf(record) : undefined,
    how: howOf(record, about),
  };
}

/**
 * What the machine shows, who asked the task to end, or what capture's own status says; undefined: the attempt is done,
 * or the status is the task's and nobody knows more.
 */
export function whyOf({ kind, end, stop }: CaptureRecord): string | undefined {
  if (kind === 'done') return undefined;
  return end?.why ?? stop?.why ?? (kind === 'failed' ? ownWord(end) : undefined);
}

/** A status that is not the task's, or for which capture gives a reason. */
function ownWord(end: CaptureRecord['end']): string | undefined {
  if (end === undefined || (end.code === end.status && end.reason === undefined)) return undefined;
  if (end.reason === LAUNCHER_LOST) return 'capture killed';
  if (end.reason?.includes('--max-attempts') === true) return 'no more attempts';
  return OWN_WORDS[end.status];
}

const OWN_WORDS: Readonly<Record<ExitStatus, string>> = {
  [EXIT.usage]: 'wrong usage',
  [EXIT.inputMissing]: 'input missing',
  [EXIT.unavailable]: 'not started',
  [EXIT.internal]: 'capture failed',
  [EXIT.notStored]: 'not all stored',
  [EXIT.preempted]: 'preempted',
  [EXIT.fenced]: 'taken over',
  [EXIT.notExecutable]: 'not executable',
  [EXIT.notFound]: 'not found',
};

function howOf({ kind, end, stop }: CaptureRecord, { isNewest, state, damaged }: AboutAttempt): string {
  if (damaged !== undefined) {
    const how = isLast(damaged.kind)
      ? stateText({ state: damaged.kind, status: damaged.status })
      : openText(isNewest, state);
    return `${how}${DAMAGED}`;
  }
  if (!isLast(kind))
    return openText(isNewest, state) + (stop === undefined ? '' : `; it was asked to end: ${stop.reason}`);
  // This end was reported neither by the task nor by capture.
  if (end?.reason === LAUNCHER_LOST) return `${kind}: ${LAUNCHER_LOST}: capture itself was killed`;
  // The signal may be all that is known of the reason.
  const isSaid = end?.signal !== undefined && end.reason?.includes(end.signal) === true;
  const task = end === undefined || isSaid ? '' : taskText(end);
  const exit = end === undefined ? '' : `capture exited ${end.status}`;
  return [kind, [task, exit, end?.reason ?? ''].filter((part) => part !== '').join('; ')]
    .filter((part) => part !== '')
    .join(': ');
}

function taskText({ code, signal }: NonNullable<CaptureRecord['end']>): string {
  if (signal !== undefined) return `the task was ended by ${signal}`;
  return code === undefined ? '' : `the task exited ${code}`;
}

/** Text for an attempt without a last record. */
function openText(isNewest: boolean, state: State): string {
  if (isNewest && state === 'running') return 'running';
  return isNewest
    ? 'no last record, no sign of life: probably killed'
    : 'no last record: killed or taken over';
}
