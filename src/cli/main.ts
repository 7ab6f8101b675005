// The entry point of the command line. It reads the command line, says what is wrong or does what was asked, and exits
// with the status.
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import type { LogSettings } from '../model/format/settings.ts';
import { guardInspector } from '../native/inspector.ts';
import { ownArguments, ownEnvironment } from '../native/start.ts';
import { carryOut, type Asked, type Say } from './commands.ts';
import { parseCommandLine, type Parsed } from './parse.ts';
import { allSaid, print, say } from './say.ts';

// SIGUSR1 must not open a debugger, not even while we are starting.
guardInspector();
const status = await main();
await allSaid();
process.exit(status);

async function main(): Promise<ExitStatus> {
  try {
    const parsed = parseCommandLine(ownArguments(), ownEnvironment(), currentDirectory());
    switch (parsed.kind) {
      case 'help':
      case 'version':
        print(parsed.text);
        return EXIT.ok;
      case 'mistakes':
        await sayMistakes(parsed);
        return EXIT.usage;
      default:
        return await begin(parsed);
    }
  } catch (error) {
    return failed(error, say);
  }
}

async function begin(asked: Asked): Promise<ExitStatus> {
  const { log, identity } = asked.settings;
  const { speak, close } = await voice(log, identity.index);
  for (const { message, hint } of asked.warnings) speak(message, 'warn', { hint });
  try {
    return await carryOut(asked, speak);
  } catch (error) {
    return failed(error, speak);
  } finally {
    await close();
  }
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
