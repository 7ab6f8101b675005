import { expect, it } from 'vitest';
import { recordKey } from '../../../src/model/format/keys.ts';
import type { RecordListing } from '../../../src/records/list.ts';
import { refuseAtWork } from '../../../src/sidecar/startup/at-work.ts';

const SCOPE = { taskName: 't', index: '0' };
const key = (attempt: number, seq: number, kind: string): string => recordKey(SCOPE, attempt, seq, kind);
const listing = (...keys: readonly string[]): RecordListing => ({ scope: SCOPE, keys, newestAttempt: 1 });

const CLAIM = key(1, 0, 'started');
const CHECKPOINT = key(1, 1, 'checkpoint');

it.each([
  ['was claimed since', [CLAIM], ''],
  ['has stored something since', [CLAIM, CHECKPOINT], CLAIM],
  ['was claimed anew since', [CLAIM, key(1, 2, 'preempted'), key(2, 0, 'started')], key(1, 2, 'preempted')],
  ['writes a list', [CLAIM, CHECKPOINT, key(1, 2, 'list')], CLAIM],
])('is left alone if it %s', (_what, keys, lastSeen) => {
  expect(() => refuseAtWork(listing(...keys), lastSeen)).toThrow('of another capture works on this index');
});

it.each([
  ['nothing is known', [CLAIM, CHECKPOINT], undefined],
  ['there is nothing', [], ''],
  ['it was silent', [CLAIM, CHECKPOINT], CHECKPOINT],
  ['it has ended since', [CLAIM, CHECKPOINT, key(1, 2, 'preempted')], CLAIM],
  ['it has failed since', [CLAIM, key(1, 1, 'failed-1')], ''],
])('is run if %s', (_what, keys, lastSeen) => {
  expect(() => refuseAtWork(listing(...keys), lastSeen)).not.toThrow();
});
