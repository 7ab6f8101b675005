// The tasks of a worker: what it takes, and what the queue hears of each end. Its launchers are told about only; the queue is
// in memory.
import { afterEach, describe, expect, it } from 'vitest';
import type { Log } from '../../src/log/log.ts';
import { Board } from '../../src/many/board.ts';
import type { LauncherStart } from '../../src/many/launcher.ts';
import { JobLeases } from '../../src/many/leases.ts';
import { TaskOutcomes } from '../../src/many/outcomes.ts';
import { Runner } from '../../src/many/runner.ts';
import type { TaskDir } from '../../src/scratch/scratch.ts';
import { BrokerSource } from '../../src/many/source.ts';
import type { QueueCounts } from '../../src/model/many/choose.ts';
import type { Submission } from '../../src/model/many/submission.ts';
import { until } from '../e2e/support.ts';
import { type FakeLauncher, fakeLauncher } from './fake-launcher.ts';
import { submission } from './submissions.ts';
import { TestQueue } from './test-queue.ts';

const GIB = 2 ** 30;

interface Started extends FakeLauncher {
  readonly start: LauncherStart;
}

interface Bench {
  readonly queue: TestQueue;
  readonly board: Board;
  readonly runner: Runner<never>;
  readonly outcomes: TaskOutcomes;
  readonly launchers: Started[];
  /** What became of each work directory, in the order of the starts. */
  readonly dirs: { readonly path: string; readonly did: string[]; isUnsaved: boolean; isInVain: boolean }[];
  /** Of the scratch directory; what failed tasks have left there can be removed. */
  readonly room: { isThere: boolean; readonly kept: string[] };
  readonly messages: string[];
  /** Command lines in the job log. */
  readonly joblog: string[];
  /** What is to come has been seen. */
  look(): void;
  readonly over: Promise<void>;
  readonly stop: AbortController;
}

let open: Bench | undefined;
afterEach(async () => {
  open?.runner.end();
  for (const launcher of open?.launchers ?? []) launcher.finish('again', 75);
  await open?.over;
  open?.stop.abort();
  open = undefined;
});

/** A machine of 4 cores and 16 GiB with a GPU. */
function bench(
  submissions: readonly (readonly [Partial<Submission>, readonly number[]])[],
  hasEnd = false,
): Bench {
  const queue = new TestQueue();
  for (const [changes, indices] of submissions)
    queue.submit(submission({ memoryBytes: GIB, ...changes }), indices);
  const launchers: Started[] = [];
  const dirs: Bench['dirs'][number][] = [];
  const room = { isThere: true, kept: [] as string[] };
  const [messages, joblog]: string[][] = [[], []];
  const say = (message: string): void => void messages?.push(message);
  const log = { debug: say, info: say, warn: say, error: say } as unknown as Log;
  const board = new Board({
    broker: queue,
    ability: { capabilities: new Set(['gpu']), whyNever: () => undefined },
    readiness: () => ({ kind: 'ready' }),
    log,
  });
  const stop = new AbortController();
  const leases = new JobLeases(queue, log);
  void leases.keep(stop.signal);
  const outcomes = new TaskOutcomes({
    board,
    leases,
    log,
    host: hasEnd ? undefined : 'node3',
    scratch: { removeKept: async () => undefined },
    joblog: { write: ({ command }) => void joblog?.push(command), close: () => undefined },
  });
  const source = new BrokerSource({
    broker: queue,
    board,
    leases,
    outcomes,
    scratch: {
      root: '/scratch',
      dirFor: (index) => fakeDir(Number(index), dirs),
      lockFd: 0,
      mayBeFull: () => !room.isThere,
      hasRoom: () => room.isThere,
      makeRoom: async () => {
        room.isThere ||= room.kept.length > 0;
        return room.kept.splice(0);
      },
    },
    prepared: { dirOf: ({ prepare }) => (prepare === undefined ? undefined : '/prepared') },
    commandOf: ({ index }) => {
      if (index === 13) throw new Error('no value for {n}');
      return { argv: ['task', String(index)], env: { n: String(index) } };
    },
    launch: { env: { HOME: '/home' }, nice: undefined, entry: '/capture.cjs', options: ['--notice=none'] },
    start: (start) => {
      const launcher = Object.assign(fakeLauncher(), { start });
      launchers.push(launcher);
      return launcher;
    },
    hasEnd,
    log,
  });
  const machine = {
    cores: 4,
    memoryBytes: 16 * GIB,
    now: () => ({ availableBytes: 15 * GIB, psiFullPercent: 0, load: 0 }),
  };
  const runner = new Runner({ source, machine, jobs: 8, maxLoad: undefined, log, lookEveryMs: 5 });
  const look = (): void => {
    board.expire();
    runner.wake();
  };
  const parts = { queue, board, outcomes, launchers, dirs, room, stop, look };
  open = {
    ...parts,
    messages: messages ?? [],
    joblog: joblog ?? [],
    runner: runner as never,
    over: runner.run(),
  };
  return open;
}

function fakeDir(index: number, dirs: Bench['dirs'][number][]): TaskDir {
  const path = `/scratch/${index}`;
  const one = { path, did: [] as string[], isUnsaved: false, isInVain: false };
  dirs.push(one);
  const did = (what: string): readonly string[] => {
    one.did.push(what);
    return [`${path}.${what}`];
  };
  return {
    path,
    log: `${path}.log`,
    make: () => void did('made'),
    remove: async () => void did('removed'),
    clear: async () => void did('cleared'),
    isUnsaved: () => one.isUnsaved,
    isInVain: () => one.isInVain,
    isFenced: () => true,
    keep: async () => did('failed'),
    setAside: () => did('unsaved-1'),
  };
}

const optionIn = ({ start }: Started, name: string): string =>
  start.options.find((one) => one.startsWith(`--${name}=`))?.slice(name.length + 3) ?? '';
const indexOf = (launcher: Started): number => Number(optionIn(launcher, 'index'));

const namesOf = ({ launchers }: Bench): readonly string[] =>
  launchers.map((one) => `${optionIn(one, 'task-name')} ${indexOf(one)}`);
const named = (name: string): Partial<Submission> => ({ name, options: [`--task-name=${name}`] });
const runs = (here: Bench, count: number): Promise<void> =>
  until(() => here.launchers.length === count, `${count} have begun`);
const counts = (here: Bench, name = 'melt'): QueueCounts => here.queue.queue(name).broker.counts();
const noneRuns = (here: Bench): Promise<void> => until(() => counts(here).running === 0, 'all have ended');

it('takes as many as fit, of the most urgent submission first, and only of those that it can run', async () => {
  const here = bench([
    [{ ...named('mesh'), capabilities: ['openfoam'], priority: 9 }, [0, 1]],
    [named('melt'), [0, 1, 2, 3, 4]],
    [{ ...named('urgent'), priority: 1, capabilities: ['gpu'] }, [7]],
  ]);
  await runs(here, 4);
  expect(namesOf(here)).toEqual(['urgent 7', 'melt 0', 'melt 1', 'melt 2']);
  expect(counts(here, 'mesh').waiting).toBe(2);
  expect(here.messages.join('\n')).toContain('mesh is left to other workers: it needs openfoam');
});

it('never waits behind a task that does not fit now', async () => {
  const here = bench([[{ ...named('small'), cores: 2 }, [0]]]);
  await runs(here, 1);
  here.queue.submit(submission({ ...named('large'), cores: 4, priority: 5 }), [0]);
  here.queue.submit(submission({ ...named('other'), cores: 2, memoryBytes: GIB }), [0]);
  here.look();
  await runs(here, 2);
  expect(namesOf(here)).toEqual(['small 0', 'other 0']);
  expect(counts(here, 'large').waiting).toBe(1);
  await until(() => here.messages.length > 0, 'it says that there is no more room');
  expect(here.messages).toEqual([expect.stringMatching(/^2 tasks at once and not 8 \(--jobs\): /)]);
});

it('starts each where it was submitted or prepared, with its own options, variables and directory', async () => {
  const here = bench([
    [{ preemptedStatus: 85, mayAskAgain: true, cwd: '/submitted' }, [3]],
    [{ name: 'built', cwd: '/submitted', prepare: 'make' }, [4]],
  ]);
  await runs(here, 2);
  const [plain, built] = here.launchers.map(({ start }) => start);
  expect(plain).toMatchObject({
    options: [...submission().options, '--notice=none', '--skip-done', '--index=3', '--workdir=/scratch/3'],
    argv: ['task', '3'],
    env: { HOME: '/home', n: '3', CAPTURED_SUBMIT_DIR: '/submitted' },
    cwd: '/submitted',
    logFile: '/scratch/3.log',
    preemptedStatus: 85,
    mayAskAgain: true,
  });
  expect(plain?.env).not.toHaveProperty('CAPTURED_PREPARED_DIR');
  expect(built).toMatchObject({
    env: { CAPTURED_SUBMIT_DIR: '/submitted', CAPTURED_PREPARED_DIR: '/prepared' },
    cwd: '/prepared',
  });
});

it('tells the queue how each ended, and keeps what nobody else has', async () => {
  const here = bench([[{ retries: 1 }, [0, 1, 2, 3]]]);
  await runs(here, 4);
  const [done, failing, preempted, fenced] = here.launchers;
  here.runner.pause(true);
  done?.finish('done');
  failing?.finish('failed', 3);
  preempted?.finish('again', 75);
  fenced?.finish('fenced', 76);
  await noneRuns(here);
  const queue = here.queue.queue('melt');
  expect(new Set(queue.done)).toEqual(new Set([0, 3]));
  expect(here.dirs.map(({ did }) => did.join(' '))).toEqual([
    'made removed',
    'made cleared',
    'made cleared',
    'made removed',
  ]);
  // What was told to end stands in front, what failed behind all.
  expect(await here.queue.waitingIn('melt')).toEqual([2, 1]);
  expect(here.messages.join('\n')).toContain('melt index 1 failed with exit status 3: try 1 of 2');
  here.runner.pause(false);
  await runs(here, 6);
  here.launchers[5]?.finish('failed', 3);
  await until(() => queue.failed.length === 1, 'it has failed');
  expect(queue.failed[0]?.reason).toMatch(/^failed with exit status 3; kept on node3: \/scratch\/1\.failed$/);
  expect(here.dirs[5]?.did).toEqual(['made', 'failed']);
  await until(() => here.outcomes.counts().failed === 1, 'it is counted');
  expect(here.outcomes.counts()).toEqual({ done: 1, failed: 1, retried: 1, givenBack: 1, fenced: 1 });
  expect(here.joblog).toEqual(['task 0', 'task 1', 'task 2', 'task 3', 'task 1']);
});

it.each(['again', 'failed'] as const)(
  'sets aside what a task could not store that goes on later (%s), before its next start',
  async (kind) => {
    const here = bench([[{ retries: 1 }, [0]]]);
    await runs(here, 1);
    const [first] = here.dirs;
    if (first !== undefined) first.isUnsaved = true;
    here.launchers[0]?.finish(kind, 74);
    await runs(here, 2);
    expect(first?.did).toEqual(['made', 'unsaved-1']);
    expect(here.messages.join('\n')).toContain(
      'what melt index 0 could not store stays on node3 in /scratch/0.unsaved-1',
    );
  },
);

it.each([
  ['would end the same way', true, 'failed', 'and a retry would end the same way; kept on node3: '],
  ['capture itself refused', false, 'final', 'has not stored all (exit status 74); kept on node3: '],
] as const)('tries nothing again that %s', async (_, isInVain, kind, said) => {
  const here = bench([[{ retries: 3 }, [0]]]);
  await runs(here, 1);
  const [dir] = here.dirs;
  if (dir !== undefined) dir.isInVain = isInVain;
  here.launchers[0]?.finish(kind, 74);
  const { failed } = here.queue.queue('melt');
  await until(() => failed.length === 1, 'it has failed');
  expect(failed[0]?.reason).toContain(said);
});

describe('a task that has no room to begin', () => {
  const noRoom = (here: Bench, at: number): void => here.launchers[at]?.finish('final', 69);

  it('begins again once what failed tasks have left is removed', async () => {
    const here = bench([[{ retries: 0 }, [0]]]);
    await runs(here, 1);
    here.room.isThere = false;
    here.room.kept.push('/scratch/9.failed');
    noRoom(here, 0);
    await runs(here, 2);
    expect(here.queue.queue('melt').failed).toEqual([]);
    expect(here.dirs[0]?.did).toEqual(['made', 'cleared']);
    expect(here.messages.join('\n')).toContain(
      'no room is left in /scratch for melt index 0 to begin: removed /scratch/9.failed',
    );
  });

  it('waits until another task has ended', async () => {
    const here = bench([[{ retries: 0 }, [0, 1]]]);
    await runs(here, 2);
    here.room.isThere = false;
    noRoom(here, 1);
    await until(() => here.outcomes.counts().givenBack === 1, 'it is given back');
    const { looks } = here.queue;
    here.look();
    await until(() => here.queue.looks > looks, 'the queue was looked at');
    expect(here.launchers).toHaveLength(2);
    here.room.isThere = true;
    here.launchers[0]?.finish('done');
    await runs(here, 3);
    expect(here.launchers.map(indexOf)).toEqual([0, 1, 1]);
  });

  it('ends the worker with 69 if no other task runs, and goes back', async () => {
    const here = bench([[{ retries: 0 }, [0]]]);
    const over = expect(here.over).rejects.toMatchObject({
      status: 69,
      hint: expect.stringMatching(/--scratch/),
    });
    await runs(here, 1);
    here.room.isThere = false;
    noRoom(here, 0);
    await over;
    open = undefined;
    here.stop.abort();
    expect(counts(here)).toMatchObject({ waiting: 1, running: 0, failed: 0 });
  });

  it('is not started at all, and goes back', async () => {
    const here = bench([[{ retries: 0 }, []]]);
    here.room.isThere = false;
    const over = expect(here.over).rejects.toMatchObject({ status: 69 });
    here.queue.submit(submission(named('other')), [7]);
    here.look();
    await over;
    open = undefined;
    here.stop.abort();
    expect(here.launchers).toEqual([]);
    expect(counts(here, 'other')).toMatchObject({ waiting: 1, running: 0, failed: 0 });
  });

  it('has failed for good if there is room: the status is that of the store or the index', async () => {
    const here = bench([[{ retries: 3 }, [0]]]);
    await runs(here, 1);
    noRoom(here, 0);
    const { failed } = here.queue.queue('melt');
    await until(() => failed.length === 1, 'it has failed');
    expect(failed[0]?.reason).toContain('failed with exit status 69');
  });
});

it('fails a task whose command cannot be made, and goes on', async () => {
  const here = bench([[{ retries: 0 }, [13, 14]]]);
  const queue = here.queue.queue('melt');
  await until(() => queue.failed.length === 1, 'it has failed');
  expect(queue.failed[0]?.reason).toContain('failed: it cannot be started: no value for {n}');
  await runs(here, 1);
  expect(here.launchers.map(indexOf)).toEqual([14]);
});

it('tells what ended while the queue was away when it is back', async () => {
  const here = bench([[{}, [0]]]);
  await runs(here, 1);
  here.queue.isAway = true;
  here.launchers[0]?.finish('done');
  await until(() => here.outcomes.counts().done === 1 && here.runner.isIdle, 'the worker is free');
  expect(here.queue.queue('melt').done).toEqual([]);
  here.queue.isAway = false;
  await until(() => here.queue.queue('melt').done.length === 1, 'the queue knows it');
});

it('ends no task because its lock is gone, and takes nothing back that another has', async () => {
  const here = bench([[{}, [0]]]);
  await runs(here, 1);
  here.runner.pause(true);
  await here.queue.loseLocks('melt');
  await until(() => here.messages.some((one) => one.includes('as abandoned')), 'it is said');
  expect(here.launchers[0]?.told).toEqual([]);
  here.launchers[0]?.finish('done');
  await until(() => here.outcomes.counts().done === 1, 'it has ended');
  expect(here.queue.queue('melt').done).toEqual([]);
  // Whoever takes it finds it done in the store.
  expect(counts(here)).toMatchObject({ waiting: 1, running: 0 });
});

it('ends the tasks of a cancelled submission after a checkpoint, and gives none back', async () => {
  const here = bench([[{}, [0, 1]]]);
  await runs(here, 2);
  const queue = here.queue.queue('melt');
  queue.submission = { ...queue.submission, cancelledMs: 1 };
  here.look();
  await until(() => here.launchers.every(({ told }) => told.length > 0), 'both are told');
  expect(here.launchers.map(({ told }) => told)).toEqual([['checkpoint'], ['checkpoint']]);
  for (const launcher of here.launchers) launcher.finish('again', 75);
  await noneRuns(here);
  expect(counts(here).waiting).toBe(0);
});

it('gives back what it has taken when it may not start any more', async () => {
  const here = bench([[{}, [0]]]);
  const take = here.queue.take.bind(here.queue);
  here.queue.take = async (name) => {
    const job = await take(name);
    // A person needs the machine while the job is on its way.
    here.runner.pause(true);
    return job;
  };
  await until(() => here.queue.looks > 0 && here.runner.isIdle, 'it has looked');
  expect(here.launchers).toEqual([]);
  expect(counts(here)).toMatchObject({ waiting: 1, running: 0 });
  here.queue.take = take;
  here.runner.pause(false);
  await runs(here, 1);
});

it('fails a job that it cannot read, and goes on with the next', async () => {
  const here = bench([]);
  here.queue.unreadable.add(0);
  here.queue.submit(submission(), [0, 1]);
  here.look();
  await runs(here, 1);
  expect(here.launchers.map(indexOf)).toEqual([1]);
  expect(here.queue.queue('melt').failed[0]?.reason).toBe('cannot be read: not readable');
});

it('leaves out a submission whose jobs cannot be taken, and goes on with the others', async () => {
  const here = bench([]);
  here.queue.broken.add('melt');
  here.queue.submit(submission(), [0]);
  here.queue.submit(submission({ name: 'mesh' }), [1]);
  here.look();
  await runs(here, 1);
  expect(here.launchers.map(indexOf)).toEqual([1]);
  // What waits is still to be done.
  expect(here.board.inTurn().map(({ name }) => name)).toContain('melt');
});

describe('--halt', () => {
  const halting = (kind: 'soon' | 'now'): Partial<Submission> => ({
    halt: { kind, fail: { kind: 'count', count: 1 } },
    cores: 2,
  });

  it('soon: starts none more at once, and lets those end that run', async () => {
    const here = bench([[halting('soon'), [0, 1, 2, 3]]], true);
    await runs(here, 2);
    here.launchers[0]?.finish('failed', 4);
    await until(() => here.outcomes.counts().failed === 1, 'it has failed');
    here.launchers[1]?.finish('done');
    await here.over;
    expect(here.launchers.map(({ told }) => told)).toEqual([[], []]);
    expect(counts(here)).toEqual({ waiting: 2, running: 0, failed: 1 });
  });

  it('now: tells those that run to end, too', async () => {
    const here = bench([[halting('now'), [0, 1, 2, 3]]], true);
    await runs(here, 2);
    here.launchers[0]?.finish('failed', 4);
    await until(() => here.launchers[1]?.told.length === 1, 'the other one is told');
    here.launchers[1]?.finish('again', 75);
    await here.over;
    expect(counts(here)).toEqual({ waiting: 3, running: 0, failed: 1 });
  });
});

it('ends by itself with the last task of an array: given back ones first, and retries last', async () => {
  const here = bench([[{ retries: 1, cores: 4 }, [0, 1, 2]]], true);
  const ends = ['failed', 'again', 'done', 'done', 'done'] as const;
  for (const [at, kind] of ends.entries()) {
    await runs(here, at + 1);
    here.launchers[at]?.finish(kind);
  }
  await here.over;
  expect(here.launchers.map(indexOf)).toEqual([0, 1, 1, 2, 0]);
});
