// The queue on a real Redis keeps the contract of every broker.
import { afterAll, beforeAll, describe } from 'vitest';
import type { Log } from '../../src/log/log.ts';
import { openWorkerBroker } from '../../src/many/queue/bullmq-worker.ts';
import { connect } from '../../src/many/queue/connect.ts';
import { isMistake } from '../../src/model/errors.ts';
import { parseQueueUrl } from '../../src/model/many/queue-url.ts';
import { keepsTheBrokerContract } from '../many/broker-contract.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { openRedis, type RedisServer } from './redis.ts';

let dir: TestDir;
let redis: RedisServer;
beforeAll(async () => {
  dir = testDir();
  redis = await openRedis(dir.path, ['--maxmemory-policy', 'noeviction']);
});
afterAll(async () => {
  await redis.close();
  dir.remove();
});

const nothing = (): void => undefined;
const log = { debug: nothing, info: nothing, warn: nothing, error: nothing } as unknown as Log;
let queues = 0;

describe('a queue on Redis', () => {
  keepsTheBrokerContract(async (submission, indices) => {
    const { signal } = new AbortController();
    queues += 1;
    const place = parseQueueUrl(redis.url(`contract-${queues}`), '--queue');
    if (isMistake(place)) throw new Error(place.message);
    const connection = await connect(place, log, signal);
    const us = { name: 'node1.1', capabilities: [], lockMs: 60_000, log };
    const broker = openWorkerBroker(connection, us);
    const tasks = indices.map((index) => ({ format: 1, index }) as const);
    await broker.add(submission, tasks, signal);
    await broker.put(submission);
    return { broker, close: () => broker.close() };
  });
});
