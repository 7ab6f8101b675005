// How BullMQ's queues are named, connected and read. The broker and the page that shows the queues share it.
import { Job, type JobJson, Queue, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { parseForeignJson } from '../../model/format/foreign-json.ts';
import { clockMs } from '../../native/clock.ts';
import { BrokerAway } from '../broker.ts';
import { isWrongType, WRONG_TYPE_HINT } from './answer.ts';
import type { Connection } from './connect.ts';
import { emptyLargeJobs, hasForeignIds, isTooLarge, TOO_LARGE } from './job-size.ts';

/**
 * The name of the queue with a submission's jobs, and the id of the submission's own job. BullMQ's names have no colon,
 * and its ids must not be plain numbers.
 */
export function queueOf(submission: string): string {
  return `s.${submission}`;
}

export function submissionOf(queue: string): string {
  return queue.slice('s.'.length);
}

/** The prefix of all keys of a queue. */
export function prefixOf({ place }: Connection): string {
  return `capture:${place.name}`;
}

/** Why a job, or a submission, cannot be read. */
export const WRONG_TYPE = 'a key of it has another type (WRONGTYPE)';

/**
 * A job that anybody may have written. BullMQ throws for a job that is not JSON. The error also breaks a list that
 * contains such a job, and a worker that has just locked it. This class gives such a job no data and a reason instead.
 */
class ForeignJob<Data, Return, Name extends string, Progress extends Job['progress']> extends Job<
  Data,
  Return,
  Name,
  Progress
> {
  whyUnread: string | undefined;

  static override fromJSON<T, R, N extends string>(
    queue: QueueOfJob,
    json: JobJson,
    id?: string,
  ): Job<T, R, N> {
    if ('value' in parseForeignJson(json.data)) return super.fromJSON(queue, json, id);
    const why = json.data === TOO_LARGE ? TOO_LARGE : 'its data is no JSON';
    return ForeignJob.unread(queue, { ...json, data: '{}' }, id, why);
  }

  static override async fromId<T, R, N extends string>(
    queue: QueueOfJob,
    id: string,
  ): Promise<Job<T, R, N> | undefined> {
    if (await isTooLarge(redisOf(queue), queue.toKey(id)))
      return ForeignJob.unread<T, R, N>(queue, NOTHING, id, TOO_LARGE);
    try {
      return await super.fromId(queue, id);
    } catch (error) {
      if (isWrongType(error)) {
        const broken = ForeignJob.unread<T, R, N>(queue, NOTHING, id, WRONG_TYPE);
        return Object.assign(broken, { failedReason: WRONG_TYPE, finishedOn: 0, processedBy: '' });
      }
      if (!isUnread(error)) throw error;
      const job = ForeignJob.withoutFields<T, R, N>(queue, id);
      // What a worker recorded about the job.
      const written = await redisOf(queue).hmget(queue.toKey(id), 'failedReason', 'finishedOn', 'pb');
      const [failedReason = '', finishedOn, processedBy] = written.map((text) => text ?? '');
      return Object.assign(job, { failedReason, finishedOn: Number(finishedOn), processedBy });
    }
  }

  /** For a job whose options or progress are not JSON: all its fields are ignored. */
  static withoutFields<T, R, N extends string>(queue: QueueOfJob, id: string): Job<T, R, N> {
    return ForeignJob.unread(queue, NOTHING, id, 'its options or its progress are no JSON');
  }

  private static unread<T, R, N extends string>(
    queue: QueueOfJob,
    json: JobJson,
    id: string | undefined,
    why: string,
  ): Job<T, R, N> {
    const job = super.fromJSON(queue, json, id);
    return Object.assign(job as unknown as Job<T, R, N>, { whyUnread: why });
  }
}

type QueueOfJob = Parameters<typeof Job.fromId>[0];
const NOTHING = { data: '{}', opts: {}, progress: 0, name: '', id: '' } as unknown as JobJson;

/** BullMQ was constructed with an open connection. */
function redisOf({ opts }: { readonly opts: object }): Redis {
  return Reflect.get(opts, 'connection') as Redis;
}

function isUnread(error: unknown): boolean {
  return error instanceof SyntaxError || error instanceof TypeError;
}

/** Why a job cannot be read; undefined if it is JSON. */
export function whyUnread(job: Job): string | undefined {
  return job instanceof ForeignJob ? job.whyUnread : undefined;
}

export class ForeignQueue extends Queue {
  protected override get Job(): typeof Job {
    return ForeignJob;
  }

  /** Throws a {@link BrokerAway} if an id is larger than any that capture has written, or if there are too many. */
  override async getRanges(
    ...[types, first = 0, last = 1, asc]: Parameters<Queue['getRanges']>
  ): Promise<string[]> {
    const lists = types.flatMap((type) => (type === 'waiting' ? ['wait', 'paused'] : [type]));
    const keys = lists.map((list) => this.toKey(list));
    if (await hasForeignIds(redisOf(this), keys, [first, last]))
      throw new BrokerAway(`${this.toKey('')} holds an id of more than 1 KiB, or more than 100,000 ids`, {
        kind: 'refused',
        hint: WRONG_TYPE_HINT,
      });
    return super.getRanges(types, first, last, asc);
  }

  /** BullMQ reads all jobs in one script: one key of a wrong type breaks it, and nothing bounds the answer. */
  override async getJobs(...[types = [], ...range]: Parameters<Queue['getJobs']>): Promise<Job[]> {
    const ids = await this.getRanges([types].flat(), ...range);
    const jobs = await Promise.all([...new Set(ids)].map((id) => this.getJob(id)));
    return jobs.filter((job) => job !== undefined);
  }
}

/** How many of the newest active jobs are searched. A job that was just locked is among them. */
const NEWEST = 1000;

export class ForeignWorker extends Worker {
  protected override get Job(): typeof Job {
    return ForeignJob;
  }

  /**
   * BullMQ locks a job before it reads it. If it cannot read the job, we still hold the lock, and nobody else would end
   * it.
   */
  protected override async moveToActive(token: string, name?: string): Promise<Job> {
    await emptyLargeJobs(redisOf(this), (one) => this.toKey(one), clockMs());
    try {
      return await super.moveToActive(token, name);
    } catch (error) {
      const id = isUnread(error) ? await this.#lockedWith(token) : undefined;
      if (id === undefined) throw error;
      const job = ForeignJob.withoutFields(this, id);
      job.token = token;
      return job;
    }
  }

  async #lockedWith(token: string): Promise<string | undefined> {
    const redis = redisOf(this);
    const ids = await redis.lrange(this.toKey('active'), 0, NEWEST - 1);
    if (ids.length === 0) return undefined;
    const locks = await redis.mget(ids.map((id) => this.toKey(`${id}:lock`)));
    return ids[locks.indexOf(token)];
  }
}

/** Opens the queue of a submission's jobs. The caller closes it; the connection stays open. */
export function openBullQueue(connection: Connection, submission: string): Queue {
  const queue = new ForeignQueue(queueOf(submission), {
    connection: connection.redis,
    prefix: prefixOf(connection),
    skipMetasUpdate: true,
  });
  // The connection logs its errors itself, once for all queues.
  queue.on('error', () => undefined);
  return queue;
}
