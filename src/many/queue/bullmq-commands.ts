// What commands do with a queue on BullMQ: look at all of it, and change what waits.
import { parseQueuedTask } from '../../model/many/submission.ts';
import { clockMs } from '../../native/clock.ts';
import type { FailedJob, Notice, QueueBroker, RunningJob, Unable, WorkerInfo } from './broker.ts';
import { queueOf } from './bull-queue.ts';
import { CHUNK, DRAINS, noticeId, NOTICES, OnBullMq, SUBMISSIONS, unableOf } from './bullmq.ts';
import { workerOf } from './bullmq-worker.ts';
import type { Connection } from './connect.ts';

const EVENTS: readonly Notice['event'][] = ['all-done', 'failed'];

export function openQueueBroker(connection: Connection): QueueBroker {
  return new ForCommands(connection);
}

class ForCommands extends OnBullMq implements QueueBroker {
  async running(name: string, most: number): Promise<readonly RunningJob[]> {
    const jobs = await this.ask(() => this.queue(queueOf(name)).getActive(0, most - 1));
    return jobs.flatMap(({ data, processedBy = '', processedOn = 0 }) => {
      const found = parseQueuedTask(data);
      if ('why' in found) return [];
      return [{ submission: name, index: found.value.index, worker: processedBy, sinceMs: processedOn }];
    });
  }

  async failed(name: string, most: number): Promise<readonly FailedJob[]> {
    const jobs = await this.ask(() => this.queue(queueOf(name)).getFailed(0, most - 1));
    return jobs.flatMap(({ data, failedReason, finishedOn = 0, processedBy = '' }) => {
      const found = parseQueuedTask(data);
      if ('why' in found) return [];
      return [{ index: found.value.index, reason: failedReason, atMs: finishedOn, worker: processedBy }];
    });
  }

  async unable(name: string): Promise<readonly Unable[]> {
    const { logs } = await this.ask(() => this.queue(SUBMISSIONS).getJobLogs(queueOf(name)));
    return logs.map(unableOf);
  }

  async workers(): Promise<readonly WorkerInfo[] | undefined> {
    const clients = await this.ask(() => this.queue(SUBMISSIONS).getWorkers());
    // What BullMQ says in place of names where the server forbids CLIENT LIST.
    if (clients.some(({ rawname }) => rawname === undefined)) return undefined;
    const found = clients.map(({ rawname = '' }) => workerOf(rawname));
    return [...new Map(found.map((one) => [one.name, one])).values()];
  }

  async dropWaiting(name: string): Promise<void> {
    await this.ask(() => this.queue(queueOf(name)).drain(true));
  }

  async remove(name: string): Promise<void> {
    await this.ask(() => this.queue(queueOf(name)).obliterate({ force: true }));
    await this.ask(() => this.queue(SUBMISSIONS).remove(queueOf(name)));
    for (const event of EVENTS) await this.ask(() => this.queue(NOTICES).remove(noticeId(name, event)));
    await this.forgetQueue(queueOf(name));
  }

  async retry(name: string): Promise<void> {
    await this.ask(() => this.queue(queueOf(name)).retryJobs({ state: 'failed', count: CHUNK }));
  }

  async drain(worker: string): Promise<void> {
    await this.ask(() => this.queue(DRAINS).add('drain', { atMs: clockMs() }, { jobId: worker }));
  }
}
