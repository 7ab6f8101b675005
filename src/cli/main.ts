// The command line's program (cli/first.ts loads it). It reads the command line, says what is wrong or does what was asked, and exits
// with the status. What a command needs is loaded on first use: thousands of array tasks start at once, and --help needs
// none of it.
import os from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Log } from '../log/log.ts';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import type { LogSettings } from '../model/format/settings.ts';
import { showJson, showPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import { guardInspector } from '../native/inspector.ts';
import { ownArguments, ownEnvironment } from '../native/start.ts';
import type { StartedSidecar } from '../launch/sidecar-start.ts';
import { isJobFile, parseCommandLine, type Parsed } from './parse.ts';
import { allSaid, print, say, type SayLevel } from './say.ts';
import type { DryRunLine } from './standalone.ts';

/** Beside this module in the bundle (build.mjs). */
const SIDECAR = fileURLToPath(new URL('./sidecar.cjs', import.meta.url));

/** `startedSidecar`: if the arguments looked like those of a run. */
export async function runAndExit(startedSidecar: StartedSidecar | undefined): Promise<never> {
  // SIGUSR1 must not open a debugger, not even while we are starting.
  guardInspector();
  const status = await main(startedSidecar);
  // After a mistake nobody needs it; after a run it is gone.
  startedSidecar?.child.kill('SIGKILL');
  await allSaid();
  process.exit(status);
}

async function main(startedSidecar?: StartedSidecar): Promise<ExitStatus> {
  try {
    const parsed = await parseOwnLine();
    switch (parsed.kind) {
      case 'help':
      case 'version':
        print(parsed.text);
        return EXIT.ok;
      case 'mistakes':
        await sayMistakes(parsed);
        return EXIT.usage;
      default:
        return await begin({ ...parsed, startedSidecar });
    }
  } catch (error) {
    return failed(error, say);
  }
}

async function parseOwnLine(): Promise<Parsed> {
  const [argv, env, cwd] = [ownArguments(), ownEnvironment(), currentDirectory()];
  if (argv[0] !== 'run' || !isJobFile(argv[1] ?? '')) return parseCommandLine(argv, env, cwd);
  const { parseRunLine } = await import('./job/run-line.ts');
  const line = parseRunLine(argv, env, cwd);
  // The task has it from us.
  Object.assign(process.env, line.env);
  return line.parsed;
}

async function begin(asked: Asked): Promise<ExitStatus> {
  const { log, identity } = asked.settings;
  const { speak, close } = await voice(log, identity.index);
  for (const { message, hint } of asked.warnings) speak(message, 'warn', { hint });
  try {
    const status = await carryOut(asked, speak).catch((error: unknown) => failed(error, speak));
    await tellEnd(asked, status, speak);
    return status;
  } finally {
    await close();
  }
}

/** A run that is to be run again has not ended; nor has one that another attempt goes on with. */
async function tellEnd({ kind, dryRun, settings }: Asked, status: ExitStatus, speak: Say): Promise<void> {
  const { notify: target, identity, to, preemptedStatus } = settings;
  if (target === undefined || dryRun || kind === 'restore') return;
  if (status === preemptedStatus || status === EXIT.fenced) return;
  const { notify, openStops } = await import('../notify/notify.ts');
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
  // A signal ends the telling, and not with a status of its own: the run is over.
  const stops = openStops();
  const stopping = new AbortController();
  void stops.first.then(({ signal }) => stopping.abort(new Error(`stopped by ${signal}`)));
  const why = await notify(target, told, stopping.signal);
  stops.close();
  if (why !== undefined) speak(`--notify did not work: ${why}`, 'warn');
}

interface Voice {
  readonly speak: Say;
  close(): Promise<void>;
}

/** In the format that was asked for, as far as it can be read; never to a log file, which may be the mistake. */
async function sayMistakes({ mistakes, log }: Extract<Parsed, { kind: 'mistakes' }>): Promise<void> {
  const { speak, close } = await voice({ level: 'info', format: log.format, file: undefined }, undefined);
  for (const { message, hint } of mistakes) speak(message, 'error', { event: 'mistake', hint });
  await close();
}

/** Plain lines need no logger: the launcher then does not load it. */
async function voice(log: LogSettings, index: string | undefined): Promise<Voice> {
  const isPlain = log.format === 'text' && log.file === undefined;
  if (isPlain && (log.level === 'info' || log.level === 'debug')) return { speak: say, close: allSaid };
  const { openLog } = await import('../log/log.ts');
  const opened = openLog(log, index);
  return { speak: (line, level, fields) => opened[level](line, fields), close: () => opened.close() };
}

function failed(error: unknown, speak: Say): ExitStatus {
  if (error instanceof CaptureError) {
    speak(error.message, 'error', { event: 'refused', hint: error.hint, status: error.status });
    return error.status;
  }
  speak(`internal error: ${reasonOf(error)}`, 'error', {
    event: 'refused',
    hint: 'report it as a bug, with the lines below',
    status: EXIT.internal,
  });
  const lines = error instanceof Error ? (error.stack ?? '').split('\n') : [];
  for (const line of lines) say(line, 'error');
  return EXIT.internal;
}

function currentDirectory(): string {
  try {
    return process.cwd();
  } catch (error) {
    throw new CaptureError(EXIT.usage, `the current directory is gone: ${reasonOf(error)}`, {
      hint: 'change to a directory that exists',
      cause: error,
    });
  }
}

/** What was asked for, when it is neither help nor a mistake. */
type Asked = Extract<Parsed, { readonly kind: 'run' | 'watch' | 'restore' }> & {
  readonly startedSidecar: StartedSidecar | undefined;
};

type Say = (line: string, level: SayLevel, fields?: MessageFields) => void;

/** Does it, and resolves to the exit status. */
async function carryOut(asked: Asked, say: Say): Promise<ExitStatus> {
  if (asked.dryRun) return dryRun(asked);
  switch (asked.kind) {
    case 'run':
      return run(asked, say);
    case 'watch':
      return watch(asked);
    case 'restore':
      return restore(asked);
  }
}

async function watch({ settings }: Asked): Promise<ExitStatus> {
  const { runStandalone, openLog } = await import('./standalone.ts');
  return logged(openLog(settings.log, settings.identity.index), (log) =>
    readable(() => runStandalone(settings, log)),
  );
}

async function restore({ settings }: Asked): Promise<ExitStatus> {
  const { handOver, restoreOnly, openLog } = await import('./standalone.ts');
  const restoring = settings.handoff === true ? handOver : restoreOnly;
  return logged(openLog(settings.log, settings.identity.index), (log) =>
    untilStopped(async (signal) => {
      log.info(await restoring(settings, log, signal), { event: 'end' });
      return EXIT.ok;
    }),
  );
}

/** Does it, and then waits until the messages are read. */
async function logged(log: Log, act: (log: Log) => Promise<ExitStatus>): Promise<ExitStatus> {
  try {
    return await act(log);
  } finally {
    await log.close();
  }
}

async function dryRun(asked: Asked): Promise<ExitStatus> {
  const { settings } = asked;
  if (asked.kind === 'run') {
    const { findCommand } = await import('../launch/task.ts');
    findCommand(asked.task.command, settings.workdir, process.env['PATH']);
  }
  const { dryRun: look } = await import('./standalone.ts');
  return untilStopped(async (signal) => {
    const { lines, failure } = await look(settings, signal);
    for (const line of lines) print(settings.log.format === 'json' ? asJson(line) : asText(line));
    if (failure !== undefined) throw failure;
    return EXIT.ok;
  });
}

function asText({ text, hint }: DryRunLine): string {
  return hint === undefined ? `${showPath(text)}\n` : `${showPath(text)}\n  try: ${showPath(hint)}\n`;
}

/** As the log writes its lines (log/log.ts), but to stdout: it is what was asked for. */
function asJson({ text: msg, hint }: DryRunLine): string {
  const common = { level: 30, time: clockMs(), pid: process.pid, hostname: os.hostname() };
  return `${showJson({ ...common, event: 'dry-run', hint, msg })}\n`;
}

/** A signal ends it, also if it is process 1 of a container: it has begun nothing that must be finished. */
async function untilStopped(act: (signal: AbortSignal) => Promise<ExitStatus>): Promise<ExitStatus> {
  const { openStops } = await import('./standalone.ts');
  const stops = openStops();
  const stopping = new AbortController();
  const stopped = stops.first.then(({ signal, number }): never => {
    const why = new CaptureError(statusOfSignal(number), `stopped by ${signal}`, { hint: 'run it again' });
    stopping.abort(why);
    throw why;
  });
  try {
    return await Promise.race([stopped, readable(() => act(stopping.signal))]);
  } finally {
    stops.close();
  }
}

/** Turns a failure of the store into what the user reads. */
async function readable(act: () => Promise<ExitStatus>): Promise<ExitStatus> {
  const { describeFailure, prepareMd5 } = await import('./standalone.ts');
  try {
    await prepareMd5();
    return await act();
  } catch (error) {
    const { status, message, hint } = describeFailure(error);
    throw new CaptureError(status, message, { hint, cause: error });
  }
}

async function run(
  { settings, task, startedSidecar }: Extract<Asked, { readonly kind: 'run' }>,
  say: Say,
): Promise<ExitStatus> {
  const [{ launch }, { readInherited }] = await Promise.all([
    import('../launch/launch.ts'),
    import('../launch/inherited.ts'),
  ]);
  return launch({
    settings,
    task,
    sidecarEntry: SIDECAR,
    startedSidecar,
    say,
    ignoredSignals: readInherited(process.env).ignoredSignals,
  });
}
