// What each command does, once the command line is understood. Modules are loaded on first use: thousands of array
// tasks start at once, and --help needs none of these modules.
import os from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Log } from '../log/log.ts';
import { CaptureError } from '../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import { clockMs } from '../native/clock.ts';
import type { Parsed } from './parse.ts';
import type { DryRunLine } from './standalone.ts';
import { print, type SayLevel } from './say.ts';

/** What was asked for, when it is neither help nor a mistake. */
export type Asked = Extract<Parsed, { readonly kind: 'run' | 'watch' | 'restore' }>;

export type Say = (line: string, level: SayLevel, fields?: MessageFields) => void;

/** Does it, and resolves to the exit status. */
export async function carryOut(asked: Asked, say: Say): Promise<ExitStatus> {
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
  return hint === undefined ? `${text}\n` : `${text}\n  try: ${hint}\n`;
}

/** As the log writes its lines (log/log.ts), but to stdout: it is what was asked for. */
function asJson({ text: msg, hint }: DryRunLine): string {
  const common = { level: 30, time: clockMs(), pid: process.pid, hostname: os.hostname() };
  return `${JSON.stringify({ ...common, event: 'dry-run', hint, msg })}\n`;
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
  const { describeFailure } = await import('./standalone.ts');
  try {
    return await act();
  } catch (error) {
    const { status, message, hint } = describeFailure(error);
    throw new CaptureError(status, message, { hint, cause: error });
  }
}

async function run(
  { settings, task }: Extract<Asked, { readonly kind: 'run' }>,
  say: Say,
): Promise<ExitStatus> {
  const [{ launch }, { readInherited }] = await Promise.all([
    import('../launch/launch.ts'),
    import('../launch/inherited.ts'),
  ]);
  return launch({
    settings,
    task,
    // Beside this module in the bundle (build.mjs).
    sidecarEntry: fileURLToPath(new URL('./sidecar.mjs', import.meta.url)),
    say,
    ignoredSignals: readInherited(process.env).ignoredSignals,
  });
}
