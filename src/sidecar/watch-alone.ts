// `capture watch`: the sidecar beside a task that somebody else runs. It goes on until it is told to stop; how
// the task ended nobody tells it, so its last record is `ended`, never `done`.
import { EXIT, type ExitStatus } from '../core/exit-status.ts';
import type { Settings } from '../core/settings.ts';
import type { Log } from '../log.ts';
import { openSidecar } from '../sidecar.ts';

/** Signals that mean: final scan, drain, exit. */
const STOPPING = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const;

/** Resolves to the exit status when everything is stored, or cannot be within `--grace` after the signal. */
export async function watchAlone(settings: Settings, log: Log): Promise<ExitStatus> {
  const stopped = new Promise<'stop'>((resolve) => {
    for (const signal of STOPPING) process.on(signal, () => resolve('stop'));
  });
  let fence: (message: string) => void = () => undefined;
  const fenced = new Promise<string>((resolve) => {
    fence = resolve;
  });
  const opened = await openSidecar({
    settings,
    attempt: undefined,
    log,
    onFenced: (message) => fence(message),
    onDrainTakes: () => undefined,
  });
  if (opened.kind === 'done-already') {
    log.info(opened.line);
    return EXIT.ok;
  }
  const { sidecar } = opened;
  log.info(sidecar.line);
  const why = await Promise.race([stopped, fenced]);
  if (why !== 'stop') log.error(why);
  const { status, line } = await sidecar.finish({
    end: undefined,
    preempted: false,
    signalledAtMs: undefined,
    deadlineMs: Date.now() + settings.graceMs,
  });
  await sidecar.close();
  log.info(line);
  return status;
}
