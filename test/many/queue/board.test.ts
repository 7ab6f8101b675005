// What a worker leaves to others, and where it says so: in its messages, and to those who look at the queue.
import { expect, it } from 'vitest';
import type { WorkerAbility } from '../../../src/model/many/choose.ts';
import { Board, type Readiness } from '../../../src/many/queue/board.ts';
import { MemoryBroker } from './memory-broker.ts';
import { submission } from './submissions.ts';

function open(readiness: Readiness = { kind: 'ready' }, ability: Partial<WorkerAbility> = {}) {
  const broker = new MemoryBroker();
  const said: string[] = [];
  const warned: string[] = [];
  const board = new Board({
    broker,
    ability: { capabilities: new Set(), whyNever: () => undefined, ...ability },
    readiness: () => readiness,
    log: { info: (message) => void said.push(message), warn: (message) => void warned.push(message) },
  });
  /** As the worker does, once a second. */
  const look = async (): Promise<readonly string[]> => {
    await board.look();
    await board.tell();
    return board.inTurn().map(({ name }) => name);
  };
  return { board, broker, look, said, warned };
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
  const { board, broker, look } = open(NEVER);
  broker.submit(submission(), [0]);
  await look();
  broker.isAway = true;
  await expect(board.tell()).rejects.toThrow('away');
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
