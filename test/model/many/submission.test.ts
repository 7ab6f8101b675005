import { describe, expect, it } from 'vitest';
import {
  isSubmissionName,
  parseQueuedTask,
  parseSubmission,
  QUEUE_FORMAT,
} from '../../../src/model/many/submission.ts';
import { submission } from '../../many/submissions.ts';

describe('a submission in the queue', () => {
  it('is read as it was written', () => {
    const written = submission({ memoryBytes: 5, prepare: 'make', overMs: 7, runId: 'a' });
    expect(parseSubmission(JSON.parse(JSON.stringify(written)))).toEqual({ value: written });
  });

  it('of another format is left alone, whatever else is in it', () => {
    expect(parseSubmission({ format: 2, name: 'x' })).toEqual({
      why: `its format is 2, and this capture reads ${QUEUE_FORMAT}`,
    });
    expect(parseSubmission({})).toHaveProperty('why');
    expect(parseSubmission('text')).toHaveProperty('why');
  });

  it('says which field is wrong', () => {
    expect(parseSubmission({ ...submission(), cores: -1 })).toMatchObject({
      why: expect.stringContaining('cores') as unknown,
    });
  });

  it('has a name that stands in keys of Redis and in command lines', () => {
    expect(['melt-7', 'a', '7.b_c'].every((one) => isSubmissionName(one))).toBe(true);
    expect(['', '-a', 'a:b', 'a b', 'ä', 'x'.repeat(101)].some((one) => isSubmissionName(one))).toBe(false);
  });
});

describe('a job in the queue', () => {
  it('is an index, with its command or columns', () => {
    const job = { format: QUEUE_FORMAT, index: 3, values: { size: '7' } };
    expect(parseQueuedTask(job)).toEqual({ value: job });
    expect(parseQueuedTask({ format: QUEUE_FORMAT, index: -1 })).toHaveProperty('why');
  });
});
