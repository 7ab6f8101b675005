// How BullMQ's queues are named and connected: what the broker and the page that shows them share.
import { Queue } from 'bullmq';
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

/** The jobs of a submission. Whoever opens it closes it; the connection stays. */
export function openBullQueue(connection: Connection, submission: string): Queue {
  const queue = new Queue(queueOf(submission), {
    connection: connection.redis,
    prefix: prefixOf(connection),
    skipMetasUpdate: true,
  });
  // The connection says it, once for all.
  queue.on('error', () => undefined);
  return queue;
}
