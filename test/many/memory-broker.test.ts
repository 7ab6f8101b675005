// The tasks of one array: what every broker promises, their order, and that very many cost little.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TakenJob } from '../../src/many/broker.ts';
import { MemoryBroker } from '../../src/many/memory-broker.ts';
import { indexArray } from '../../src/model/index-set.ts';
import { keepsTheBrokerContract } from './broker-contract.ts';
import { submission } from './submissions.ts';

const brokerOf = (last: number, retries = 0): MemoryBroker =>
  new MemoryBroker(submission({ retries }), indexArray({ ranges: [{ first: 0, last, step: 1 }] }));

const take = async (broker: MemoryBroker): Promise<TakenJob> => {
  const job = await broker.take();
  if (job === undefined) throw new Error('none waits');
  return job;
};
const indexOf = ({ task }: TakenJob): number => ('value' in task ? task.value.index : -1);

type Ending = 'done' | 'failed' | 'again' | 'final';
const end = async (job: TakenJob, ending: Ending): Promise<unknown> => {
  if (ending === 'done') return job.done();
  return ending === 'again' ? job.giveBack() : job.failed('why', ending === 'final');
};

/** All that are taken, one after the other, if each ends as `endOf` says. */
const orderOf = async (
  broker: MemoryBroker,
  endOf: (job: TakenJob) => Ending,
): Promise<readonly number[]> => {
  const order: number[] = [];
  for (let job = await broker.take(); job !== undefined; job = await broker.take()) {
    order.push(indexOf(job));
    await end(job, endOf(job));
  }
  return order;
};

describe('as every broker', () => {
  keepsTheBrokerContract((one, indices) =>
    Promise.resolve({
      broker: new MemoryBroker(one, Uint32Array.from(indices)),
      close: () => Promise.resolve(),
    }),
  );
});

it('tells what was seen of an index before, but only for its first start', async () => {
  const broker = new MemoryBroker(
    submission({ retries: 1 }),
    Uint32Array.from([7]),
    (index) => `key of ${index}`,
  );
  const first = await take(broker);
  expect(first.lastSeen).toBe('key of 7');
  await first.giveBack();
  const second = await take(broker);
  await second.failed('why', false);
  expect([second.lastSeen, (await take(broker)).lastSeen]).toEqual([undefined, undefined]);
});

describe('the order of starts', () => {
  it('is that of the indices, and those that failed come last, as often as they have retries', async () => {
    const broker = brokerOf(3, 2);
    expect(await orderOf(broker, (job) => (indexOf(job) === 1 ? 'failed' : 'done'))).toEqual([
      0, 1, 2, 3, 1, 1,
    ]);
    expect(broker.counts()).toEqual({ waiting: 0, running: 0, failed: 1 });
  });

  it('puts those that were given back before all others, the oldest first', async () => {
    const broker = brokerOf(4);
    const jobs = [await take(broker), await take(broker), await take(broker)];
    for (const job of jobs.toReversed()) await job.giveBack();
    expect(broker.counts()).toMatchObject({ waiting: 5 });
    expect(await orderOf(broker, () => 'done')).toEqual([2, 1, 0, 3, 4]);
  });

  it('puts those that were given back before those that failed, and these in the order of their ends', async () => {
    const broker = brokerOf(2, 2);
    const jobs = [await take(broker), await take(broker), await take(broker)];
    await end(jobs[1] ?? (await take(broker)), 'failed');
    await end(jobs[0] ?? (await take(broker)), 'failed');
    await end(jobs[2] ?? (await take(broker)), 'again');
    expect(await orderOf(broker, () => 'done')).toEqual([2, 1, 0]);
  });

  it('is kept by a hundred thousand that all fail and are tried again', async () => {
    const order = await orderOf(brokerOf(99_999, 1), (job) => (job.failedBefore === 0 ? 'failed' : 'done'));
    expect(order.length).toBe(200_000);
    expect(order.every((index, at) => index === at % 100_000)).toBe(true);
  });
});

it('ten million indices take some 40 MB, and none of the heap', async () => {
  const before = process.memoryUsage();
  const broker = brokerOf(9_999_999);
  for (let n = 0; n < 1000; n += 1) await (await take(broker)).done();
  const after = process.memoryUsage();
  expect(broker.counts().waiting).toBe(9_999_000);
  expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(48e6);
  expect(after.heapUsed - before.heapUsed).toBeLessThan(16e6);
});

describe('whatever happens', () => {
  /** At each step one of those that run ends somehow, or the next is taken. */
  const steps = fc.array(
    fc.record({
      what: fc.constantFrom('take', 'take', 'end'),
      which: fc.nat(),
      ending: fc.constantFrom<Ending>('done', 'done', 'failed', 'failed', 'again', 'final'),
    }),
    { maxLength: 200 },
  );

  it('each index ends exactly once, no more of it runs at a time, and its tries are bounded', async () => {
    await fc.assert(
      fc.asyncProperty(steps, fc.nat(30), fc.nat(3), async (some, last, retries) => {
        const broker = brokerOf(last, retries);
        const running = new Map<number, TakenJob>();
        const over = new Set<number>();
        let failed = 0;
        const begin = async (): Promise<void> => {
          const job = await broker.take();
          if (job === undefined) return;
          expect(running.has(indexOf(job)) || over.has(indexOf(job))).toBe(false);
          expect(job.failedBefore).toBeLessThanOrEqual(retries);
          running.set(indexOf(job), job);
        };
        const finish = async (job: TakenJob, ending: Ending): Promise<void> => {
          running.delete(indexOf(job));
          const fate = await end(job, ending);
          if (fate === 'failed') failed += 1;
          if (fate === 'failed' || ending === 'done') over.add(indexOf(job));
        };
        const check = (): void => {
          const { waiting, ...counts } = broker.counts();
          expect(counts).toEqual({ running: running.size, failed });
          expect(waiting + running.size + over.size).toBe(last + 1);
        };
        for (const { what, which, ending } of some) {
          const one = [...running.values()][which % Math.max(1, running.size)];
          if (what === 'take') await begin();
          else if (one !== undefined) await finish(one, ending);
          check();
        }
        while (over.size <= last) {
          for (const job of running.values()) await finish(job, 'done');
          await begin();
        }
        check();
      }),
    );
  });
});
