// Submissions for tests: one of ten tasks, with what the test changes.
import type { SeenSubmission } from '../../src/model/many/choose.ts';
import { QUEUE_FORMAT, type Submission } from '../../src/model/many/submission.ts';

export function submission(changes: Partial<Submission> = {}): Submission {
  return {
    format: QUEUE_FORMAT,
    name: 'melt',
    taskName: 'lmp',
    indices: { ranges: [{ first: 0, last: 9, step: 1 }] },
    size: 10,
    command: { kind: 'argv', argv: ['/bin/echo', '{index}'] },
    jobsHoldTask: false,
    options: ['--results=r', '--to=file:///shared/store'],
    store: { url: 'file:///shared/store', flags: [], unfenced: false },
    preemptedStatus: 75,
    mayAskAgain: false,
    cwd: '/',
    capabilities: [],
    cores: 1,
    retries: 0,
    halt: { kind: 'never' },
    priority: 0,
    after: [],
    submittedMs: 1000,
    ...changes,
  };
}

export function seen(
  changes: Partial<Submission> = {},
  counts: Partial<SeenSubmission['counts']> = {},
): SeenSubmission {
  return { submission: submission(changes), counts: { waiting: 0, running: 0, failed: 0, ...counts } };
}
