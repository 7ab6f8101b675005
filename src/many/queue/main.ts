// The entry point of `capture submit`, `capture worker` and `capture queue` (bin/capture chooses it by the first word): reads
// the command line, carries it out, and exits with the status.
import { fileURLToPath } from 'node:url';
import { realOutside } from '../../cli/options/outside.ts';
import { openLog } from '../../log/log.ts';
import { warnOnce } from '../../log/once.ts';
import type { Mistake } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { LogSettings } from '../../model/format/settings.ts';
import { prepareMd5 } from '../../model/md5.ts';
import { nearestWord } from '../../model/nearest.ts';
import { showPath } from '../../model/path.ts';
import { guardInspector } from '../../native/inspector.ts';
import { writeText } from '../../native/shared-output.ts';
import { hideFromOurUser } from '../../native/processes.ts';
import { ownArguments, ownEnvironment } from '../../native/start.ts';
import { failed } from '../../cli/failed.ts';
import { uncheckedCertificates } from '../../cli/warnings.ts';
import { cancelCommand, drainCommand, retryCommand } from './acts.ts';
import { parseQueueLine, type ParsedLine, type QueueCommand } from './command.ts';
import { pauseCommand, resumeCommand } from './pause.ts';
import { statusCommand } from './status.ts';
import { submitCommand } from './submit.ts';
import { uiCommand } from './ui.ts';
import { workerCommand } from './worker.ts';

/** Beside this module in the bundle (build.mjs). */
const ENTRY = fileURLToPath(new URL('./capture.cjs', import.meta.url));
const SIDECAR_ENTRY = fileURLToPath(new URL('./sidecar.cjs', import.meta.url));
const STDOUT = 1;
const PLAIN: LogSettings = { level: 'info', format: 'text', file: undefined };

const OF_QUEUE: Readonly<Record<string, QueueCommand>> = {
  status: statusCommand,
  ui: uiCommand,
  cancel: cancelCommand,
  retry: retryCommand,
  drain: drainCommand,
};

const QUEUE_HELP = `Usage: capture queue <command> [options]

What is in a queue, and what becomes of it:

  capture queue status [submission]  what waits, runs, has failed and is done, and who works
  capture queue ui                   the same in a browser
  capture queue retry <submission>   those that have failed wait for another try
  capture queue cancel <submission>  drops what waits, and ends what runs after a checkpoint
  capture queue drain <worker>       this worker takes nothing more, and ends with its last task

Each tells more: capture queue status --help.
`;

guardInspector();
// Each task listens for the end of its launcher: that is no leak.
process.setMaxListeners(0);
void main().then((status) => process.exit(status));

async function main(): Promise<ExitStatus> {
  const env = ownEnvironment();
  const line = lineOf(ownArguments(), env);
  if ('text' in line) {
    writeText(STDOUT, line.text);
    return EXIT.ok;
  }
  // A mistake is never said to the log file, which may be the mistake.
  const log = openLog(line.kind === 'mistakes' ? { ...line.log, level: 'info', file: undefined } : line.log);
  try {
    if (line.kind === 'mistakes') {
      for (const { message, hint } of line.mistakes) log.error(message, { event: 'mistake', hint });
      return EXIT.usage;
    }
    // The tasks run as our user, and the password of the queue is not for them.
    hideFromOurUser();
    for (const warning of uncheckedCertificates(env)) warnOnce(log, warning);
    await prepareMd5();
    const print = (text: string): void => writeText(STDOUT, text);
    return await line.carryOut({
      log,
      print,
      env,
      entry: ENTRY,
      sidecarEntry: SIDECAR_ENTRY,
    });
  } catch (error) {
    return failed(error, log);
  } finally {
    await log.close();
  }
}

function lineOf([word = '', ...args]: readonly string[], env: NodeJS.ProcessEnv): ParsedLine {
  if (word === 'queue' && (args[0] === '-h' || args[0] === '--help'))
    return { kind: 'help', text: QUEUE_HELP };
  const found = commandOf(word, args);
  if ('message' in found) return { kind: 'mistakes', mistakes: [found], log: PLAIN };
  return parseQueueLine(found.command, found.args, { env, cwd: process.cwd(), outside: realOutside });
}

function commandOf(
  word: string,
  args: readonly string[],
): { readonly command: QueueCommand; readonly args: readonly string[] } | Mistake {
  const [second = '', ...rest] = args;
  if (word === 'submit') return { command: submitCommand, args };
  if (word === 'worker') {
    if (second === 'pause') return { command: pauseCommand, args: rest };
    return second === 'resume' ? { command: resumeCommand, args: rest } : { command: workerCommand, args };
  }
  const command = Object.hasOwn(OF_QUEUE, second) ? OF_QUEUE[second] : undefined;
  if (command !== undefined) return { command, args: rest };
  const names = Object.keys(OF_QUEUE);
  const known = names.join(', ');
  return {
    message:
      second === '' || second.startsWith('-')
        ? `capture queue does one of these: ${known}`
        : `unknown command 'queue ${showPath(second)}': there are ${known}`,
    hint: `capture queue ${nearestWord(second, names) ?? '--help'}`,
  };
}
