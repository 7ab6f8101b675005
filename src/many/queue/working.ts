// A worker at work: everything that it holds beside its work directories is opened here, and closed in the opposite order.
import { setMaxListeners } from 'node:events';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { withSidecar } from '../beside.ts';
import { storedText } from '../view.ts';
import { openControl } from './control.ts';
import { doDuties } from './duties.ts';
import { type Means, openParts, type Parts, type Place, withoutOptions } from './parts.ts';
import { watchUse } from './when-idle.ts';

/** The queue is told how the last tasks ended, if it is there within this time. */
const SETTLE_MS = 10_000;
const TOLD_EVERY_MS = 60_000;

/** Until it is told to end, is drained, or was idle for long enough. Resolves to the exit status. */
export async function work(place: Place): Promise<ExitStatus> {
  const { asked, tools, scratch, tasksAtOnce } = place;
  const options = {
    entry: tools.sidecarEntry,
    dir: scratch.root,
    lockFd: scratch.lockFd,
    tasksAtOnce,
    env: withoutOptions(tools.env),
    nice: asked.nice,
    log: tools.log,
  };
  return withSidecar(options, (beside) => workWith({ ...place, ...beside }));
}

async function workWith(means: Means): Promise<ExitStatus> {
  const { asked, tools, pushes, machine, broker, sidecar, ownChildren } = means;
  const { log } = tools;
  const parts = openParts(means);
  const { source, runner, pausing, notice, held, board, prepared } = parts;
  const stop = new AbortController();
  // Each request of a survey listens.
  setMaxListeners(0, stop.signal);
  const control = await openControl(pausing, tools);
  const use = watchUse(asked.whenIdleMs, pausing, {
    log,
    loadOf: () => machine.now().load,
    isIdle: () => source.isIdle && !prepared.isUnderWay(),
    env: withoutOptions(tools.env),
    ownChildren,
  });
  pushes.listen({
    pushed: ({ how, signal }) => {
      log.warn(`${signal}: every task is told to end, and goes back to the queue`);
      // What is frozen could not checkpoint.
      pausing.thaw();
      source.end();
      runner.push(how);
      if (how === 'kill') sidecar.kill();
    },
    noticed: (signal) => notice.signalled(signal),
    passedOn: (signal) => runner.signal(signal),
  });
  const duties = doDuties(
    {
      broker,
      board,
      held,
      source,
      log,
      env: withoutOptions(tools.env),
      ownChildren,
      looked: () => runner.wake(),
      idleTimeoutMs: asked.idleTimeoutMs,
      isKept: () => prepared.isUnderWay() || pausing.isPaused,
    },
    stop.signal,
  );
  const progress = (): string => [progressText(parts), ...storedText(sidecar.numbers())].join('; ');
  const told = setInterval(() => log.info(progress(), { ...sidecar.numbers() }), TOLD_EVERY_MS);
  try {
    await runner.run();
    source.end();
    await held.settled(AbortSignal.timeout(SETTLE_MS));
    log.info(progress(), { event: 'end' });
    return pushes.last()?.status ?? (parts.isNoticed() ? EXIT.preempted : EXIT.ok);
  } finally {
    clearInterval(told);
    stop.abort();
    await duties;
    use.close();
    await control?.close();
    await parts.close();
  }
}

function progressText({ source, runner }: Parts): string {
  const { done, failed, givenBack } = source.counts();
  return `${runner.running().length} running, ${done} done here, ${failed} failed, ${givenBack} given back`;
}
