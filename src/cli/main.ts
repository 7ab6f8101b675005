// The entry point of the command line: parse, say what is wrong, or do what was asked and exit with its status.
import { CaptureError, reasonOf } from '../core/errors.ts';
import { EXIT, type ExitStatus } from '../core/exit-status.ts';
import { guardInspector } from '../launch/inspector.ts';
import { carryOut, type Asked, type Say } from './commands.ts';
import { parseCommandLine } from './parse.ts';
import { allSaid, print, say } from './say.ts';

// SIGUSR1 must not open a debugger, not even while we are starting.
guardInspector();
const status = await main();
await allSaid();
process.exit(status);

async function main(): Promise<ExitStatus> {
  try {
    const parsed = parseCommandLine(process.argv.slice(2), process.env, currentDirectory());
    switch (parsed.kind) {
      case 'help':
      case 'version':
        print(parsed.text);
        return EXIT.ok;
      case 'mistakes':
        for (const { message, hint } of parsed.mistakes) say(message, 'error', hint);
        return EXIT.usage;
      default:
        return await begin(parsed);
    }
  } catch (error) {
    return failed(error, say);
  }
}

async function begin(asked: Asked): Promise<ExitStatus> {
  const { speak, close } = await voice(asked);
  for (const { message, hint } of asked.warnings) speak(message, 'warn', hint);
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

/** Plain lines need no logger, and the launcher stays small without one. */
async function voice({ settings: { log } }: Asked): Promise<Voice> {
  if (log.format === 'text' && log.level === 'info' && log.file === undefined)
    return { speak: say, close: allSaid };
  const { openLog } = await import('../log.ts');
  const opened = openLog(log);
  return {
    speak: (line, level, hint) => opened[level](line, hint === undefined ? {} : { hint }),
    close: () => opened.close(),
  };
}

function failed(error: unknown, speak: Say): ExitStatus {
  if (error instanceof CaptureError) {
    speak(error.message, 'error', error.hint);
    return error.status;
  }
  speak(`internal error: ${reasonOf(error)}`, 'error', 'report it as a bug, with the lines below');
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
