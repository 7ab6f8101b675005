// The actions of the commands that accompany a task. Everything they need is loaded on first use: thousands of array
// tasks start at once, and a run loads nothing of the other commands.
import os from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Log } from '../log/log.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import { showJson, showPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import type { StartedSidecar } from '../launch/sidecar-start.ts';
import type { Command, CommandSpec, Tools } from './command.ts';
import type { FreshWorkdir } from './fresh-workdir.ts';
import { failed, untilStopped } from './program.ts';
import { RESTORE_SPEC, RUN_SPEC, type RunRequest, WATCH_SPEC } from './run-spec.ts';
import type { DryRunLine } from './standalone.ts';

/** The file next to this module in the bundle (build.mjs). */
const SIDECAR = fileURLToPath(new URL('./sidecar.cjs', import.meta.url));

type Act = (request: RunRequest, tools: Tools) => Promise<ExitStatus>;

/** `startedSidecar` is set if the arguments looked like those of a run. */
export function runCommand(startedSidecar: StartedSidecar | undefined): Command<RunRequest> {
  const act: Act = (request, tools) => run(request, tools, startedSidecar);
  return { ...commandOf(RUN_SPEC, thenNotify(act)), isLight: true };
}

export const watchCommand = commandOf(WATCH_SPEC, thenNotify(watch));
export const restoreCommand = commandOf(RESTORE_SPEC, restore);

function commandOf(spec: CommandSpec<RunRequest>, act: Act): Command<RunRequest> {
  return {
    ...spec,
    indexOf: ({ settings }) => settings.identity.index,
    act: (request, tools) =>
      request.dryRun ? inWorkdir(request, tools, (one) => dryRun(spec, one, tools)) : act(request, tools),
  };
}

/** With `--workdir auto`, makes the directory first. */
async function inWorkdir(
  request: RunRequest,
  { log }: Tools,
  act: (request: RunRequest, fresh?: FreshWorkdir) => Promise<ExitStatus>,
  stopping?: AbortSignal,
): Promise<ExitStatus> {
  if (!request.makesWorkdir) return act(request);
  const { openFreshWorkdir } = await import('./fresh-workdir.ts');
  const fresh = await openFreshWorkdir(request.settings, log, stopping);
  try {
    return await act({ ...request, settings: { ...request.settings, workdir: fresh.path } }, fresh);
  } finally {
    await fresh.close();
  }
}

async function run(
  request: RunRequest,
  tools: Tools,
  startedSidecar: StartedSidecar | undefined,
): Promise<ExitStatus> {
  const [{ launch }, { readInherited }, { keepSignals }] = await Promise.all([
    import('../launch/launch.ts'),
    import('../launch/inherited.ts'),
    import('../launch/signals.ts'),
  ]);
  // It has started already, unless it could not.
  if (startedSidecar === undefined) (await import('../launch/sidecar-start.ts')).needEntry(SIDECAR);
  const { log, env } = tools;
  const { ignoredSignals } = readInherited(env);
  const keptSignals = keepSignals(ignoredSignals, request.settings.notices.signals);
  const act = ({ settings, task }: RunRequest, fresh?: FreshWorkdir): Promise<ExitStatus> => {
    // The task inherits our environment.
    Object.assign(process.env, task.env);
    return launch({
      settings,
      task,
      sidecarEntry: SIDECAR,
      startedSidecar,
      say: (line, level, fields) => log[level](line, fields),
      ignoredSignals,
      keptSignals,
      ended: fresh?.ended,
    });
  };
  return inWorkdir(request, tools, act, keptSignals.asked);
}

async function watch({ settings }: RunRequest, { log }: Tools): Promise<ExitStatus> {
  const { runStandalone } = await loadParts();
  return runStandalone(settings, log);
}

async function restore({ settings }: RunRequest, { log, signal }: Tools): Promise<ExitStatus> {
  const { handOver, restoreOnly } = await loadParts();
  const restoring = settings.handoff === true ? handOver : restoreOnly;
  const { text, fields } = await restoring(settings, log, signal);
  log.info(text, { event: 'end', ...fields });
  return EXIT.ok;
}

async function dryRun(
  { name }: CommandSpec,
  { settings, task }: RunRequest,
  { out }: Tools,
): Promise<ExitStatus> {
  if (name === 'run') {
    const { findCommand } = await import('../launch/task.ts');
    findCommand(task.command, settings.workdir, process.env['PATH']);
  }
  const { dryRun: look } = await loadParts();
  return untilStopped(async (signal) => {
    const { lines, failure } = await look(settings, signal);
    for (const line of lines) await out.write(settings.log.format === 'json' ? asJson(line) : asText(line));
    if (failure !== undefined) throw failure;
    return EXIT.ok;
  });
}

function asText({ text, hint }: DryRunLine): string {
  return hint === undefined ? `${showPath(text)}\n` : `${showPath(text)}\n  try: ${showPath(hint)}\n`;
}

/** In the log's format (log/log.ts), but on stdout, because it is the requested output. */
function asJson({ text: msg, hint }: DryRunLine): string {
  const common = { level: 30, time: clockMs(), pid: process.pid, hostname: os.hostname() };
  return `${showJson({ ...common, event: 'dry-run', hint, msg })}\n`;
}

/** Not needed by a launcher: a separate file in dist/ that has its own md5. */
async function loadParts() {
  const parts = await import('./standalone.ts');
  await parts.prepareMd5();
  return parts;
}

/**
 * Sends the end to the target of --notify afterwards, unless the task is to run again, or another attempt continues it.
 */
function thenNotify(act: Act): Act {
  return async (request, tools) => {
    const { notify: target, preemptedStatus } = request.settings;
    const status = await act(request, tools).catch((error: unknown) => failed(error, tools.log));
    if (target === undefined || status === preemptedStatus || status === EXIT.fenced) return status;
    await tellEnd(request, status, tools.log);
    return status;
  };
}

async function tellEnd({ settings }: RunRequest, status: ExitStatus, log: Log): Promise<void> {
  const { notify: target, identity, to } = settings;
  if (target === undefined) return;
  const { notify } = await import('../notify/notify.ts');
  const { taskName: task, index } = identity;
  const which = index === undefined ? task : `${task} ${index}`;
  const told = {
    event: status === EXIT.ok ? 'done' : 'failed',
    text: status === EXIT.ok ? `${which} is done` : `${which} failed with exit status ${status}`,
    task,
    index,
    status,
    store: to.url,
  } as const;
  // A signal ends --notify, but does not change the exit status: the run is over.
  const why = await untilStopped((signal) => notify(target, told, signal));
  if (why !== undefined) log.warn(`--notify did not work: ${why}`);
}
