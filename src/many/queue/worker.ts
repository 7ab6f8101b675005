// `capture worker`: takes tasks from a queue and runs as many as this machine carries, until it is told to end. Here its
// command line is read, and the queue and the work directories are opened and closed.
import os from 'node:os';
import type { Option } from '../../cli/options/spec.ts';
import { STOP } from '../../cli/options/stop.ts';
import { readInherited } from '../../launch/inherited.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { showQueue } from '../../model/many/queue-url.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { openJoblog } from '../joblog-file.ts';
import { settingsOfRun } from '../line.ts';
import { thisMachine } from '../machine.ts';
import { runOnEnd } from '../on-end.ts';
import { everyWordOf } from '../options.ts';
import { openPushes } from '../pushes.ts';
import { openScratch } from '../scratch.ts';
import type { WorkerBroker } from './broker.ts';
import { openWorkerBroker } from './bullmq-worker.ts';
import {
  type CarryOut,
  type QueueCommand,
  type QueueLine,
  type QueueTools,
  refuseOperands,
} from './command.ts';
import { connect } from './connect.ts';
import { allOf, QUEUE, queueOf, WORKER } from './options.ts';
import { warnIfOpenToAll } from './open-to-all.ts';
import { type Around, type Asked, withoutOptions } from './parts.ts';
import { work } from './working.ts';

const NOTICE_OPTIONS: readonly Option[] = [STOP.notice, STOP['notice-on']];

export const workerCommand: QueueCommand = {
  title: 'capture worker',
  usage: '--queue <url> [options]',
  about:
    'Runs tasks of a queue on this machine, as many at once as it carries, and only those that it can run now. Start one ' +
    'on each machine; start and end them at any time. capture worker pause gives the machine back for a while.',
  statuses:
    '    0  drained, or idle for --idle-timeout\n   75  told to end (SIGTERM, a notice)\n  130  stopped by SIGINT',
  examples: [
    'capture worker --queue redis://head:6379/lab',
    'capture worker --queue redis://head/lab --has gpu,openfoam --jobs 2 --nice 10 --when-idle 15',
    "capture worker --queue redis://head/lab --idle-timeout 10m --on-end 'shutdown -h now'",
  ],
  options: [...Object.values(QUEUE), ...Object.values(WORKER), ...NOTICE_OPTIONS],
  variables: [...Object.values(QUEUE), ...Object.values(WORKER), ...NOTICE_OPTIONS],
  takesTask: false,
  read: (line) => readWorker(line),
};

function readWorker(line: QueueLine): CarryOut {
  const { values, given, cwd, outside, refuse } = line;
  refuseOperands(line);
  const queue = queueOf(values);
  // Read as a run reads them: of its other settings none is used.
  const words = ['--to=/tmp', ...NOTICE_OPTIONS.flatMap((option) => everyWordOf(given, option))];
  const some = { indices: { ranges: [] }, argv: ['true'] };
  const run = settingsOfRun(words, some, { env: {}, cwd, outside });
  if (run.kind === 'mistakes') refuse(...run.mistakes);
  if (run.kind !== 'run' || queue === undefined) return () => Promise.resolve(EXIT.usage);
  const asked: Asked = {
    queue,
    capabilities: [...allOf(values, WORKER.has)].toSorted(),
    jobs: values.of(WORKER.jobs),
    nice: values.of(WORKER.nice),
    maxLoad: values.of(WORKER['max-load']),
    scratch: values.path(WORKER.scratch),
    joblog: values.path(WORKER.joblog),
    lockMs: values.of(WORKER['lost-after']),
    whenIdleMs: values.of(WORKER['when-idle']),
    idleTimeoutMs: values.of(WORKER['idle-timeout']),
    notices: run.settings.notices,
  };
  const onEnd = values.of(WORKER['on-end']);
  return async (tools) => {
    const status = await runWorker(asked, tools).catch(async (error: unknown) => {
      await end(onEnd, EXIT.unavailable, tools);
      throw error;
    });
    await end(onEnd, status, tools);
    return status;
  };
}

async function end(
  command: string | undefined,
  status: ExitStatus,
  { log, env }: Pick<QueueTools, 'log' | 'env'>,
): Promise<void> {
  const why = command === undefined ? undefined : await runOnEnd(command, status, withoutOptions(env));
  if (why !== undefined) log.warn(`--on-end did not work: ${why}`);
}

async function runWorker(asked: Asked, tools: QueueTools): Promise<ExitStatus> {
  const pushes = openPushes({
    ignored: readInherited(tools.env).ignoredSignals,
    notices: asked.notices.signals,
  });
  try {
    const connection = await connect(asked.queue, tools.log, pushes.stopping);
    await warnIfOpenToAll(connection, tools.log);
    const { capabilities, lockMs } = asked;
    const name = `${os.hostname().replaceAll(/[^A-Za-z0-9.-]/g, '-')}.${process.pid}`;
    const broker = openWorkerBroker(connection, { name, capabilities, lockMs });
    try {
      return await workWith(broker, name, { asked, tools, pushes, machine: thisMachine() });
    } finally {
      await broker.close();
    }
  } catch (error) {
    // Whatever failed because of it.
    if (pushes.stopping.aborted) return pushes.last()?.status ?? EXIT.preempted;
    throw error;
  } finally {
    pushes.close();
  }
}

async function workWith(broker: WorkerBroker, name: string, around: Around): Promise<ExitStatus> {
  const { asked, tools, machine } = around;
  const { availableBytes } = machine.now();
  const tasksAtOnce = Math.max(1, Math.min(asked.jobs, Math.floor(machine.cores)));
  const joblog = asked.joblog === undefined ? undefined : openJoblog(asked.joblog, tools.log);
  try {
    const scratch = await openScratch(asked.scratch, { tasksAtOnce, availableBytes, log: tools.log });
    try {
      const has = asked.capabilities.length === 0 ? '' : `, has ${asked.capabilities.join(', ')}`;
      tools.log.info(
        `worker ${name} of ${showQueue(asked.queue)}: ${plural(machine.cores, 'core')}, ${formatBytes(machine.memoryBytes)}${has}; work directories in ${scratch.words}`,
      );
      return await work({ ...around, broker, scratch, joblog, tasksAtOnce });
    } finally {
      await scratch.close();
    }
  } finally {
    joblog?.close();
  }
}
