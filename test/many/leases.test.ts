// The locks of what a worker has taken: renewed as long as it holds the job, whatever goes wrong in between.
import { afterEach, expect, it } from 'vitest';
import { BrokerAway, type TakenJob } from '../../src/many/broker.ts';
import { JobLeases } from '../../src/many/leases.ts';
import { newDeferred } from '../../src/model/waiting.ts';
import { until } from '../e2e/support.ts';

let stop: AbortController;
afterEach(() => stop.abort());

const JOB = { submission: 'melt' } as TakenJob;
const said: string[] = [];
const say = (message: string): void => void said.push(message);

function hold(renew: (jobs: readonly TakenJob[]) => Promise<readonly TakenJob[]>): JobLeases {
  said.length = 0;
  stop = new AbortController();
  const leases = new JobLeases({ renew, lockMs: 8 }, { info: say, warn: say });
  leases.add(JOB);
  void leases.keep(stop.signal);
  return leases;
}

it('are renewed until the queue knows how the job ended', async () => {
  let renewals = 0;
  const all = hold((jobs) => {
    renewals += jobs.length;
    return Promise.resolve([]);
  });
  await until(() => renewals > 3, 'renewed again and again');
  await all.end(JOB, () => Promise.resolve());
  const before = renewals;
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(renewals).toBe(before);
});

it('that are gone because the job has just ended are no news', async () => {
  const answer = newDeferred<readonly TakenJob[]>();
  let isAsked = false;
  const all = hold(() => {
    isAsked = true;
    return answer.promise;
  });
  await until(() => isAsked, 'it is renewed');
  await all.end(JOB, () => Promise.resolve());
  answer.resolve([JOB]);
  await answer.promise;
  await new Promise(setImmediate);
  expect(said).toEqual([]);
});

it('that are gone because the queue was away when the job ended are no news either', async () => {
  let isAway = true;
  const all = hold((jobs) => (isAway ? Promise.reject(new BrokerAway('away')) : Promise.resolve(jobs)));
  let told = 0;
  await all.end(JOB, () => {
    if (isAway) return Promise.reject(new BrokerAway('away'));
    told += 1;
    return Promise.resolve();
  });
  isAway = false;
  await until(() => told > 0, 'it is told');
  await new Promise(setImmediate);
  expect(said).toEqual([]);
  expect(all.submissions().size).toBe(0);
});

it('are renewed again after an error of any kind, of which it tells once', async () => {
  let calls = 0;
  hold(() => {
    calls += 1;
    return Promise.reject(new Error('odd'));
  });
  await until(() => calls > 3, 'it tries again');
  expect(said).toEqual(['locks of the queue cannot be renewed: odd']);
});
