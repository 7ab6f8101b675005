// The parts of a worker that know each other, and how: the board, what it holds, its tasks and their runner, pauses, notices.
import fs from 'node:fs';
import { OPTION_NAMES } from '../../cli/options.ts';
import { envNameOf } from '../../cli/options/spec.ts';
import type { NoticeSettings } from '../../model/format/settings.ts';
import type { QueuePlace } from '../../model/many/queue-url.ts';
import type { Submission } from '../../model/many/submission.ts';
import type { Beside } from '../beside.ts';
import type { JoblogFile } from '../joblog-file.ts';
import type { ThisMachine } from '../machine.ts';
import { openSharedNotice, type SharedNotice } from '../notice.ts';
import type { Pushes } from '../pushes.ts';
import { Runner, whyNever } from '../runner.ts';
import type { Scratch } from '../scratch.ts';
import { Board, type Readiness } from './board.ts';
import type { WorkerBroker } from './broker.ts';
import type { QueueTools } from './command.ts';
import { type Held, openHeld } from './held.ts';
import { argvOf, openTask } from './open-task.ts';
import { QUEUE, WORKER } from './options.ts';
import { Pausing } from './pausing.ts';
import { openPrepared, type Prepared } from './prepare.ts';
import { needsOf, QueueSource } from './source.ts';

/** What the command line says. */
export interface Asked {
  readonly queue: QueuePlace;
  readonly capabilities: readonly string[];
  readonly jobs: number;
  readonly nice: number | undefined;
  readonly maxLoad: number | undefined;
  readonly scratch: string | undefined;
  readonly joblog: string | undefined;
  readonly lockMs: number;
  readonly whenIdleMs: number | undefined;
  readonly idleTimeoutMs: number | undefined;
  readonly notices: NoticeSettings;
}

/** What a worker has from beginning to end. */
export interface Around {
  readonly asked: Asked;
  readonly tools: QueueTools;
  readonly pushes: Pushes;
  readonly machine: ThisMachine;
}

export interface Place extends Around {
  /** At most. */
  readonly tasksAtOnce: number;
  readonly broker: WorkerBroker;
  readonly scratch: Scratch;
  readonly joblog: JoblogFile | undefined;
}

/** And for its tasks. */
export interface Means extends Place, Beside {}

/** The parts of a worker that know each other. */
export interface Parts {
  readonly board: Board;
  readonly held: Held;
  readonly prepared: Prepared;
  readonly source: QueueSource;
  readonly runner: Runner;
  readonly pausing: Pausing;
  readonly notice: SharedNotice;
  /** The machine is taken away. */
  isNoticed(): boolean;
  close(): Promise<void>;
}

export function openParts(means: Means): Parts {
  const { asked, tools, machine, broker, scratch, joblog, ownChildren, seats, sidecar } = means;
  const { log } = tools;
  const env = withoutOptions(tools.env);
  const changed = (): void => runner.wake();
  const prepare = { root: scratch.root, env, log, changed, ownChildren };
  const prepared = openPrepared({ ...prepare, mayBegin: () => source.mayStart });
  const nameOf = ({ submission }: { readonly submission: string }): string => `a task of ${submission}`;
  const held = openHeld({ broker, lockMs: asked.lockMs, nameOf, log });
  const board = boardOf(means, prepared);
  let isNoticed = false;
  const notice = openSharedNotice(asked.notices, scratch.root, {
    log,
    changed: (stands) => {
      isNoticed = stands;
      source.pause(stands || pausing.isPaused);
      runner.noticed(stands);
    },
  });
  const around = {
    scratch,
    env,
    nice: asked.nice,
    entry: tools.entry,
    ownChildren,
    seats,
    notice: notice.option,
    prepared,
    sidecar,
  };
  const source: QueueSource = new QueueSource({
    broker,
    board,
    held,
    scratch,
    joblog,
    log,
    changed,
    argvOf: (task) => argvOf(task, prepared),
    open: (task) => openTask(task, around),
  });
  const runner = new Runner({ source, machine, jobs: asked.jobs, maxLoad: asked.maxLoad, log });
  const pausing = new Pausing({
    hold: (isHeld) => {
      source.pause(isHeld || isNoticed);
      prepared.hold(isHeld);
      runner.wake();
    },
    freeze: () => runner.signal('SIGTSTP'),
    thaw: () => runner.signal('SIGCONT'),
    giveBack: () => source.push('again'),
  });
  const close = async (): Promise<void> => {
    pausing.close();
    notice.close();
    held.close();
    await prepared.close();
  };
  return { board, held, prepared, source, runner, pausing, notice, isNoticed: () => isNoticed, close };
}

function boardOf({ asked, tools, machine, broker }: Means, prepared: Prepared): Board {
  return new Board({
    broker,
    ability: {
      capabilities: new Set(asked.capabilities),
      whyNever: (submission) => whyNever(needsOf(submission), machine),
    },
    readiness: (one) => (one.prepare === undefined ? readinessOf(one) : prepared.ask(one)),
    log: tools.log,
  });
}

/** Without --prepare a task starts where it was submitted: on a shared file system, or not at all. */
function readinessOf({ cwd }: Submission): Readiness {
  if (fs.existsSync(cwd)) return { kind: 'ready' };
  return { kind: 'never', why: `the directory where it was submitted, ${cwd}, is not on this machine` };
}

/**
 * The environment of all that a worker starts. What was said for the worker is not for them, nor is the password of the
 * queue: the tasks run as our user, and the kernel lets them read the environment of any process that is not hidden.
 */
export function withoutOptions(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own = Object.values({ ...QUEUE, ...WORKER }).map(({ name }) => name);
  const names = new Set([...OPTION_NAMES, ...own].map(envNameOf).concat('CAPTURE_FDS', 'REDISCLI_AUTH'));
  return Object.fromEntries(Object.entries(env).filter(([name]) => !names.has(name)));
}
