// How BullMQ's queues are named, connected and read: what the broker and the page that shows them share.
import { Job, type JobJson, Queue, Worker } from 'bullmq';
import { parseForeignJson } from '../../model/format/foreign-json.ts';
import type { Connection } from './connect.ts';

/** Of the jobs of a submission, and of its own: BullMQ's names have no colon, and its ids are no plain numbers. */
export function queueOf(submission: string): string {
  return `s.${submission}`;
}

export function submissionOf(queue: string): string {
  return queue.slice('s.'.length);
}

/** Before all keys of a queue. */
export function prefixOf({ place }: Connection): string {
  return `capture:${place.name}`;
}

/**
 * A job that anybody may have written. BullMQ throws for one that is no JSON, and so for a list of many jobs with one of these;
 * here such a job has no data, and is read as one that capture submit could not have written.
 */
class ForeignJob<Data, Return, Name extends string, Progress extends Job['progress']> extends Job<
  Data,
  Return,
  Name,
  Progress
> {
  static override fromJSON<T, R, N extends string>(
    queue: QueueOfJob,
    json: JobJson,
    id?: string,
  ): Job<T, R, N> {
    return super.fromJSON(queue, 'value' in parseForeignJson(json.data) ? json : { ...json, data: '{}' }, id);
  }

  static override async fromId<T, R, N extends string>(
    queue: QueueOfJob,
    id: string,
  ): Promise<Job<T, R, N> | undefined> {
    try {
      return await super.fromId(queue, id);
    } catch (error) {
      // Its options, or its progress, are no JSON.
      if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error;
      return super.fromJSON(queue, NOTHING, id);
    }
  }
}

type QueueOfJob = Parameters<typeof Job.fromId>[0];
const NOTHING = { data: '{}', opts: {}, progress: 0, name: '', id: '' } as unknown as JobJson;

export class ForeignQueue extends Queue {
  protected override get Job(): typeof Job {
    return ForeignJob;
  }
}

export class ForeignWorker extends Worker {
  protected override get Job(): typeof Job {
    return ForeignJob;
  }
}

/** The jobs of a submission. Whoever opens it closes it; the connection stays. */
export function openBullQueue(connection: Connection, submission: string): Queue {
  const queue = new ForeignQueue(queueOf(submission), {
    connection: connection.redis,
    prefix: prefixOf(connection),
    skipMetasUpdate: true,
  });
  // The connection says it, once for all.
  queue.on('error', () => undefined);
  return queue;
}
