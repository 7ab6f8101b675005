// One finding of the doctor: its level, the facts, and what helps.

/**
 * `ok`: as it should be. `warn`: capture works here, but slower, later, or with less space. `fail`: a run here would
 * not start, or could not keep its promises.
 */
export const LEVELS = ['ok', 'warn', 'fail'] as const;
export type Level = (typeof LEVELS)[number];

export interface Finding {
  /** The examined part: `work directory`. */
  readonly check: string;
  readonly level: Level;
  readonly says: string;
  /** What to do about it. */
  readonly mend?: string | undefined;
  /** Its figures, for programs. */
  readonly facts?: Readonly<Record<string, number | string | boolean>> | undefined;
}

type Facts = Finding['facts'];

export function ok(check: string, says: string, facts?: Facts): Finding {
  return { check, level: 'ok', says, facts };
}

export function warn(check: string, says: string, mend: string, facts?: Facts): Finding {
  return { check, level: 'warn', says, mend, facts };
}

export function fail(check: string, says: string, mend: string, facts?: Facts): Finding {
  return { check, level: 'fail', says, mend, facts };
}
