// What every broker promises a worker (src/many/broker.ts): one suite, which the one in memory and the one on Redis both pass.
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { TakenJob, WorkerBroker } from '../../src/many/broker.ts';
import type { Submission } from '../../src/model/many/submission.ts';
import { submission } from './submissions.ts';

export interface OpenBroker {
  readonly broker: WorkerBroker;
  close(): Promise<void>;
}

/** `open`: a broker with this submission, whose tasks wait. */
export function keepsTheBrokerContract(
  open: (submission: Submission, indices: readonly number[]) => Promise<OpenBroker>,
): void {
  let opened: OpenBroker | undefined;
  let broker: WorkerBroker;
  beforeEach(async () => {
    opened = await open(submission({ retries: 1 }), [2, 3, 5]);
    ({ broker } = opened);
  });
  afterEach(() => opened?.close());

  const take = async (): Promise<TakenJob> => {
    const job = await broker.take('melt');
    if (job === undefined) throw new Error('nothing waits');
    return job;
  };
  const indexOf = ({ task }: TakenJob): number => ('value' in task ? task.value.index : -1);
  /** All that wait, in their order, with how often each had failed. */
  const takeAll = async (): Promise<readonly (readonly [number, number])[]> => {
    const all: (readonly [number, number])[] = [];
    for (let job = await broker.take('melt'); job !== undefined; job = await broker.take('melt'))
      all.push([indexOf(job), job.failedBefore]);
    return all;
  };
  const counts = async (): Promise<unknown> => {
    const [listed] = await broker.list();
    return listed?.kind === 'submission' ? listed.counts : undefined;
  };

  it('lists the submission, and how many of its tasks wait, run and have failed', async () => {
    const [listed] = await broker.list();
    expect(listed).toMatchObject({ kind: 'submission', submission: { name: 'melt', retries: 1 } });
    expect(await counts()).toEqual({ waiting: 3, running: 0, failed: 0 });
    const job = await take();
    expect(await counts()).toEqual({ waiting: 2, running: 1, failed: 0 });
    await job.failed('why', true);
    expect(await counts()).toEqual({ waiting: 2, running: 0, failed: 1 });
  });

  it('gives out each task once, in the order of the indices', async () => {
    expect(await takeAll()).toEqual([
      [2, 0],
      [3, 0],
      [5, 0],
    ]);
    expect(await broker.take('melt')).toBeUndefined();
  });

  it('forgets what is done', async () => {
    expect(await (await take()).done()).toBe(true);
    expect(await counts()).toEqual({ waiting: 2, running: 0, failed: 0 });
  });

  it('puts one that was given back before all others, and counts no try', async () => {
    expect(await (await take()).giveBack()).toBe(true);
    expect(await takeAll()).toEqual([
      [2, 0],
      [3, 0],
      [5, 0],
    ]);
  });

  it('tries one that failed again behind all others, as often as the submission says', async () => {
    expect(await (await take()).failed('why', false)).toBe('retried');
    expect(await (await take()).done()).toBe(true);
    expect(await (await take()).done()).toBe(true);
    const again = await take();
    expect([indexOf(again), again.failedBefore]).toEqual([2, 1]);
    expect(await again.failed('why', false)).toBe('failed');
    expect(await counts()).toEqual({ waiting: 0, running: 0, failed: 1 });
  });

  it('remembers of one that was given back how often it has failed', async () => {
    await (await take()).failed('why', false);
    await (await take()).done();
    await (await take()).done();
    await (await take()).giveBack();
    expect(await takeAll()).toEqual([[2, 1]]);
  });

  it('tries none again whose failure is final', async () => {
    expect(await (await take()).failed('why', true)).toBe('failed');
    expect((await takeAll()).map(([index]) => index)).toEqual([3, 5]);
  });

  it('ends a job once: after that it is no longer ours', async () => {
    const job = await take();
    const [done, givenBack] = [await take(), await take()];
    expect(await broker.renew([job, done, givenBack])).toEqual([]);
    await done.done();
    await givenBack.giveBack();
    expect(await broker.renew([job, done, givenBack])).toEqual([done, givenBack]);
    expect(await done.giveBack()).toBe(false);
    expect(await givenBack.done()).toBe(false);
    expect(await givenBack.failed('why', true)).toBe('lost');
    expect(await job.done()).toBe(true);
  });
}
