// `capture worker`: takes tasks from a queue and runs as many as this machine can carry, until a signal ends it, it is
// drained, or it was idle for long enough. work.ts is the part in common with `capture array`. This file adds what a
// queue and a person at the machine need.
import { setMaxListeners } from 'node:events';
import os from 'node:os';
import { failed } from '../../cli/program.ts';
import { SHELL, templateOf } from '../../cli/job/tasks.ts';
import { RUN_OPTIONS } from '../../cli/options.ts';
import { envNameOf } from '../../cli/options/spec.ts';
import { readInherited } from '../../launch/inherited.ts';
import type { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { Log } from '../../log/log.ts';
import type { NoticeSettings } from '../../model/format/settings.ts';
import { mostAtOnce } from '../../model/many/admission.ts';
import { type QueuePlace, showQueue } from '../../model/many/queue-url.ts';
import { thisMachine, type ThisMachine } from '../machine.ts';
import { runOnEnd } from '../on-end.ts';
import type { CommandOf } from '../source.ts';
import { openStopEscalation, type StopEscalation } from '../stop-escalation.ts';
import type { RunnerTools } from '../tools.ts';
import { progressText } from '../view.ts';
import { type MachineUse, machineText, type Worker, withWorker } from '../work.ts';
import type { SharedBroker } from './broker.ts';
import { openWorkerBroker } from './bullmq-worker.ts';
import { connect } from './connect.ts';
import { openControl } from './control.ts';
import { keepHouse } from './housekeeping.ts';
import { warnIfOpenToAll } from './open-to-all.ts';
import { QUEUE, WORKER } from './options.ts';
import { Pausing } from './pausing.ts';
import { watchUse } from './when-idle.ts';

/** The parsed command line. */
export interface WorkerRequest extends MachineUse {
  readonly queue: QueuePlace;
  readonly capabilities: readonly string[];
  readonly lockMs: number;
  readonly whenIdleMs: number | undefined;
  readonly idleTimeoutMs: number | undefined;
  readonly notices: NoticeSettings;
  readonly onEnd: string | undefined;
}

/** Resolves to the exit status. Errors are logged. */
export async function runWorker(request: WorkerRequest, tools: RunnerTools): Promise<ExitStatus> {
  const stops = openStopEscalation({
    ignored: readInherited(tools.env).ignoredSignals,
    notices: request.notices.signals,
  });
  const status = await onQueue(request, tools, stops).catch((error: unknown) =>
    // Errors after a stop are its consequence.
    stops.stopping.aborted ? (stops.last()?.status ?? EXIT.preempted) : failed(error, tools.log),
  );
  stops.close();
  await runOnEnd(request.onEnd, status, { env: withoutOptions(tools.env), log: tools.log });
  return status;
}

async function onQueue(
  request: WorkerRequest,
  tools: RunnerTools,
  stops: StopEscalation,
): Promise<ExitStatus> {
  const { queue, capabilities, lockMs, notices } = request;
  // While the view is open, it prints the connection's messages above the drawn lines.
  let log = tools.log;
  const info: Log['info'] = (...said) => log.info(...said);
  const warn: Log['warn'] = (...said) => log.warn(...said);
  const connection = await connect(queue, { ...tools.log, info, warn }, stops.stopping);
  await warnIfOpenToAll(connection, tools.log);
  const name = `${os.hostname().replaceAll(/[^A-Za-z0-9.-]/g, '-')}.${process.pid}`;
  const broker = openWorkerBroker(connection, { name, capabilities, lockMs, log: { warn } });
  try {
    const machine = thisMachine();
    const options = {
      broker,
      use: request,
      notices,
      capabilities,
      machine,
      stops,
      tools,
      tasksAtOnce: mostAtOnce({ cores: 1, memoryBytes: undefined }, { ...machine, jobs: request.jobs }).tasks,
      commandOf,
      env: withoutOptions(tools.env),
      array: undefined,
    };
    return await withWorker(options, async (worker) => {
      ({ log } = worker);
      const has = capabilities.length === 0 ? '' : `, has ${capabilities.join(', ')}`;
      worker.log.info(
        `worker ${name} of ${showQueue(queue)}: ${machineText(machine)}${has}; work directories in ${worker.scratch.words}`,
      );
      const blind = await runBeside(worker, { request, broker, machine, env: tools.env });
      tools.log.info(progressText(worker.progress()), { event: 'end' });
      if (blind !== undefined) throw blind;
      return stops.last()?.status ?? (worker.runner.isNoticed ? EXIT.preempted : EXIT.ok);
    });
  } finally {
    await broker.close();
  }
}

interface QueueWork {
  readonly request: WorkerRequest;
  readonly broker: SharedBroker;
  readonly machine: ThisMachine;
  /** The worker's own environment. */
  readonly env: NodeJS.ProcessEnv;
}

/**
 * Runs the worker together with what only a worker of a queue has: housekeeping and pauses. Resolves to an error if it
 * ended because it could not see its queue.
 */
async function runBeside(
  worker: Worker,
  { request, broker, machine, env }: QueueWork,
): Promise<CaptureError | undefined> {
  const { log, runner, prepared, ownChildren } = worker;
  const pausing = new Pausing(worker);
  const stop = new AbortController();
  // Each request of a survey adds a listener.
  setMaxListeners(0, stop.signal);
  const control = await openControl(pausing, { env, log });
  const clean = { env: withoutOptions(env), ownChildren };
  const isIdle = (): boolean => runner.isIdle && !prepared.isUnderWay();
  const loadOf = (): number => machine.now().load;
  if (request.whenIdleMs !== undefined)
    void watchUse(request.whenIdleMs, pausing, { log, loadOf, isIdle, ...clean }, stop.signal);
  const house = keepHouse(
    {
      broker,
      worker,
      env: clean.env,
      idleTimeoutMs: request.idleTimeoutMs,
      isKept: () => prepared.isUnderWay() || pausing.isPaused,
    },
    stop.signal,
  );
  try {
    await worker.run();
    stop.abort();
    return await house;
  } finally {
    stop.abort();
    await house;
    await control?.close();
    pausing.close();
  }
}

/** Throws if a placeholder has no value, because then the job does not belong to this submission. */
export const commandOf: CommandOf = ({ index, command: line, values = {} }, { command }, dir) => {
  if (line !== undefined) return { argv: [...SHELL, line], env: values };
  if (command === undefined) throw new Error('its job has no command');
  const template = templateOf(command, ['index', ...Object.keys(values)], dir);
  if (!('argvFor' in template)) throw new Error(template.map(({ message }) => message).join('; '));
  return { argv: template.argvFor({ ...values, index: String(index) }), env: values };
};

/**
 * The environment of all child processes. It contains neither the worker's own options nor the queue's password: tasks
 * run as our user, and the kernel lets them read the environment of any process that is not hidden.
 */
function withoutOptions(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const options = [...RUN_OPTIONS, ...Object.values({ ...QUEUE, ...WORKER })];
  const names = new Set([...options.map(({ name }) => envNameOf(name)), 'CAPTURE_FDS', 'REDISCLI_AUTH']);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !names.has(name)));
}
