// If records exist and cannot be read, the task must not start anew: only they may name a stored checkpoint. Decides
// before anything is restored. If only some records are damaged, only what they alone said is lost.
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import type { Settings } from '../../model/format/settings.ts';
import { plural } from '../../model/units.ts';
import type { ReadRecords } from '../../records/read.ts';

/**
 * Throws status 69 if earlier attempts of this run have recorded something and not one whole record is left. A claim
 * that can still be read tells which run its attempt belonged to.
 */
export function refuseUnreadable(
  { records, problems, unreadable }: ReadRecords,
  { restore, identity, to }: Pick<Settings, 'restore' | 'identity' | 'to'>,
): void {
  const sameRun = records.filter(({ record }) => record.runId === identity.runId);
  if (!restore || sameRun.some(({ record }) => record.seq > 0)) return;
  const otherRuns = new Set(
    records.filter((one) => !sameRun.includes(one)).map(({ record }) => record.attempt),
  );
  const lost = unreadable.filter((attempt) => !otherRuns.has(attempt));
  if (lost.length === 0) return;
  throw new CaptureError(
    EXIT.unavailable,
    `no record of ${plural(lost.length, 'earlier attempt')} in ${to.url} is whole: ${problems[0] ?? ''}`,
    { hint: 'bring back a copy of the records (versions of the bucket); --no-restore starts from nothing' },
  );
}
