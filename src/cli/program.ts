// The entry and exit of every program. It parses the command line, reports mistakes or runs the command, and exits with
// its status. Thrown errors are reported only here.
import { setMaxListeners } from 'node:events';
import fs from 'node:fs';
import type { Log } from '../log/log.ts';
import { warnOnce } from '../log/once.ts';
import { CaptureError, failureOf, reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import type { LogSettings } from '../model/format/settings.ts';
import { encodePath } from '../model/path.ts';
import { guardInspector } from '../native/inspector.ts';
import { ownArguments, ownEnvironment } from '../native/cmdline-environ.ts';
import { openStops } from '../native/stops.ts';
import type { Command, Tools } from './command.ts';
import { defaultsFiles } from './options/defaults.ts';
import { realOutside } from './options/outside.ts';
import type { Caller } from './options/values.ts';
import { openOutput, ReaderGone } from './output.ts';
import { findCommand, type Parsed, readLine } from './read-line.ts';
import { plainLog } from './say.ts';
import { uncheckedCertificates } from './warnings.ts';

/** The status that a shell reports for SIGPIPE (signal(7)), which would have ended another program. */
const READER_GONE = statusOfSignal(13);

/**
 * The kernel's name for the current directory. It works even after the directory was removed, when nothing can be found
 * or created in it.
 */
const REMOVED_DIRECTORY = '/proc/self/cwd';

/** The first command of the table runs if the command line names none. */
export type Commands = readonly [Command, ...Command[]];

export async function runProgram(commands: Commands): Promise<never> {
  process.exit(await statusOf(commands));
}

/** Runs the command line of this process, and resolves to the exit status. */
export async function statusOf(commands: Commands): Promise<ExitStatus> {
  // SIGUSR1 must not open a debugger, not even during the start.
  guardInspector();
  const stopping = new AbortController();
  // Many concurrent requests listen to it, so many listeners are no leak.
  setMaxListeners(0, stopping.signal);
  const out = openOutput((why) => stopping.abort(why));
  let log = plainLog;
  // If the reader leaves early, help and the output of commands without a store still exit 0.
  let readerGone: ExitStatus = EXIT.ok;
  try {
    const { command, args, namesJob } = findCommand(commands, ownArguments());
    const here = { env: ownEnvironment(), cwd: currentDirectory(command), outside: realOutside };
    const files = defaultsFiles(here.env);
    const hasDefaults = files.some(({ isThere }) => isThere);
    const job = namesJob || hasDefaults ? await import('./job/job-line.ts') : undefined;
    const caller: Caller = { ...here, ...(hasDefaults ? job?.readDefaults(files, here) : {}) };
    const { env } = caller;
    const parsed = readLine(command, args, caller, namesJob ? job?.withJobFile : undefined);
    if (parsed.kind !== 'text') {
      log = await logFor(command, parsed);
      if (!command.isLight) readerGone = READER_GONE;
    }
    const tools = { log, out, env, signal: stopping.signal };
    const act = (): Promise<ExitStatus> => obey(command, parsed, tools);
    const status = await (command.handlesSignals ? act() : untilStopped(act, stopping));
    await out.flush();
    return status;
  } catch (error) {
    return error instanceof ReaderGone ? readerGone : failed(error, log);
  } finally {
    // Whatever failed, earlier output is not lost.
    await out.flush().catch(() => undefined);
    await log.close();
  }
}

function currentDirectory({ needsNoDirectory }: Command): string {
  try {
    return process.cwd();
  } catch (error) {
    if (needsNoDirectory) return REMOVED_DIRECTORY;
    throw new CaptureError(EXIT.usage, `the current directory is gone: ${reasonOf(error)}`, {
      hint: 'change to a directory that exists',
      cause: error,
    });
  }
}

async function logFor(command: Command, parsed: Exclude<Parsed<unknown>, { kind: 'text' }>): Promise<Log> {
  const isWrong = parsed.kind === 'mistakes';
  const settings: LogSettings = isWrong
    ? { ...parsed.log, level: 'info', file: fileOfMistakes(parsed.log) }
    : parsed.log;
  const { level, format, file } = settings;
  const isPlain = format === 'text' && file === undefined && (level === 'info' || level === 'debug');
  if (isPlain && (isWrong || command.isLight)) return plainLog;
  const { openLog } = await import('../log/log.ts');
  return openLog(settings, isWrong ? undefined : command.indexOf?.(parsed.request));
}

/** No new file is made for mistakes, because the option of the log file may be one of them. */
function fileOfMistakes({ file }: LogSettings): string | undefined {
  try {
    if (file !== undefined) fs.accessSync(encodePath(file), fs.constants.W_OK);
    return file;
  } catch {
    return undefined;
  }
}

async function obey(command: Command, parsed: Parsed<unknown>, tools: Tools): Promise<ExitStatus> {
  const { log, out, env } = tools;
  switch (parsed.kind) {
    case 'text':
      await out.write(parsed.text);
      return EXIT.ok;
    case 'mistakes':
      for (const { message, hint } of parsed.mistakes) log.error(message, { event: 'mistake', hint });
      return EXIT.usage;
    case 'go': {
      const ofAll = command.isLight ? [] : uncheckedCertificates(env);
      for (const warning of [...ofAll, ...parsed.warnings]) warnOnce(log, warning);
      if (!command.isLight) await (await import('../model/md5.ts')).prepareMd5();
      return command.act(parsed.request, tools);
    }
  }
}

/** The first signal aborts `stopping`, and `act` ends as soon as it can. The second signal ends the process at once. */
export async function untilStopped<T>(
  act: (signal: AbortSignal) => Promise<T>,
  stopping = new AbortController(),
): Promise<T> {
  const { signal } = stopping;
  const stops = openStops();
  void stops.second.then(({ number }) => process.exit(statusOfSignal(number)));
  void stops.first.then(({ signal: name, number }) =>
    stopping.abort(new CaptureError(statusOfSignal(number), `stopped by ${name}`)),
  );
  try {
    return await act(signal);
  } catch (error) {
    // Errors after a stop are its consequence.
    throw signal.aborted ? signal.reason : error;
  } finally {
    stops.close();
  }
}

/** Logs a thrown error with its hint, and returns the exit status. */
export function failed(error: unknown, log: Log): ExitStatus {
  const { status, message, hint } = failureOf(error);
  log.error(message, { event: 'refused', hint, status });
  return status;
}
