// What a worker leaves to others, and where it says so: in its messages, and to those who look at the queue.
import { describe, expect, it } from 'vitest';
import type { WorkerAbility } from '../../src/model/many/choose.ts';
import { Board, type Readiness } from '../../src/many/board.ts';
import { submission } from './submissions.ts';
import { TestQueue } from './test-queue.ts';

function open(readiness: Readiness = { kind: 'ready' }, ability: Partial<WorkerAbility> = {}) {
  const broker = new TestQueue();
  const said: string[] = [];
  const warned: string[] = [];
  const board = new Board({
    broker,
    ability: { capabilities: new Set(), whyNever: () => undefined, ...ability },
    readiness: () => readiness,
    log: { info: (message) => void said.push(message), warn: (message) => void warned.push(message) },
  });
  const tell = (): Promise<void> => board.tell((name, why) => broker.tellUnable(name, why));
  /** As the worker does, once a second. */
  const look = async (): Promise<readonly string[]> => {
    board.expire();
    await board.lookIfDue();
    await tell();
    return board.inTurn().map(({ name }) => name);
  };
  return { board, broker, look, tell, said, warned };
}

const NEVER = { kind: 'never', why: '--prepare ended with exit status 2' } as const;

it('is told once, in both places', async () => {
  const { broker, look, said } = open(NEVER);
  broker.submit(submission(), [0]);
  for (let count = 0; count < 3; count += 1) expect(await look()).toEqual([]);
  expect(said).toEqual(['melt is left to other workers: --prepare ended with exit status 2']);
  expect(broker.unable).toEqual([{ submission: 'melt', why: NEVER.why }]);
});

it('is told when the queue is back', async () => {
  const { broker, look, tell } = open(NEVER);
  broker.submit(submission(), [0]);
  await look();
  broker.isAway = true;
  await expect(tell()).rejects.toThrow('away');
  expect(broker.unable).toEqual([]);
  broker.isAway = false;
  await look();
  expect(broker.unable).toHaveLength(1);
});

it('is told again of a later submission of the same name', async () => {
  const { broker, look, said } = open(NEVER);
  broker.submit(submission(), [0]);
  await look();
  broker.submit(submission({ submittedMs: 2000 }), [0]);
  await look();
  await look();
  expect(said).toHaveLength(2);
  expect(broker.unable).toHaveLength(2);
});

it('is what would never fit, too; which capabilities it has not, everybody sees', async () => {
  const { broker, look, said } = open(undefined, { whyNever: () => 'it needs 8 cores' });
  broker.submit(submission({ name: 'large' }), [0]);
  broker.submit(submission({ name: 'mesh', capabilities: ['openfoam'] }), [0]);
  await look();
  await look();
  expect(said.join('\n')).toContain('mesh is left to other workers: it needs openfoam');
  expect(broker.unable).toEqual([{ submission: 'large', why: 'it needs 8 cores' }]);
});

it('is nothing while it prepares', async () => {
  const { broker, look, said } = open({ kind: 'under-way' });
  broker.submit(submission(), [0]);
  expect(await look()).toEqual([]);
  expect(said).toEqual([]);
});

it('is a warning where somebody can mend it', async () => {
  const { broker, look, said, warned } = open({ ...NEVER, hint: 'look at its log' });
  broker.submit(submission(), [0]);
  await look();
  expect(warned).toEqual(['melt is left to other workers: --prepare ended with exit status 2']);
  expect(said).toEqual([]);
});

describe('--halt', () => {
  const fail = async (broker: TestQueue): Promise<void> => {
    const job = await broker.take('melt');
    await job?.failed('why', true);
  };

  it.each([
    ['soon', '; those that run go on', []],
    ['now', ', and those that run are told to end', ['melt']],
  ] as const)('%s: no more are started, which is said once', async (kind, rest, ended) => {
    const { board, broker, look, warned } = open();
    broker.submit(submission({ halt: { kind, fail: { kind: 'count', count: 1 } } }), [0, 1, 2]);
    expect(await look()).toEqual(['melt']);
    await fail(broker);
    expect(await look()).toEqual([]);
    await fail(broker);
    expect(await look()).toEqual([]);
    expect(warned).toEqual([`melt: 1 task failed: --halt says that no more are started${rest}`]);
    expect([...board.toBeEnded().keys()]).toEqual(ended);
  });
});
