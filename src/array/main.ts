// The entry point of the commands on a whole array (bin/capture chooses it by the first word): reads the command line,
// carries it out, and exits with the status. A signal ends it: what it reads stays as it is.
import { setMaxListeners } from 'node:events';
import { ARRAY_COMMAND_NAMES, type ArrayCommandName } from '../cli/array-commands.ts';
import { failed } from '../cli/failed.ts';
import { nearestWord } from '../model/nearest.ts';
import { openLog, type Log } from '../log/log.ts';
import { CaptureError } from '../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import type { LogSettings } from '../model/format/settings.ts';
import { prepareMd5 } from '../model/md5.ts';
import { showPath } from '../model/path.ts';
import { guardInspector } from '../native/inspector.ts';
import { ownArguments, ownEnvironment } from '../native/start.ts';
import { openStops } from '../native/stops.ts';
import { uncheckedCertificates } from '../cli/warnings.ts';
import { warnOnce } from '../log/once.ts';
import type { CarryOut } from './command.ts';
import { COMMANDS } from './commands.ts';
import { parseLine, type ParsedLine } from './line.ts';
import { openOutput, ReaderGone, type Output } from './output.ts';

const PLAIN: LogSettings = { level: 'info', format: 'text', file: undefined };
/** As a shell reports SIGPIPE (signal(7)): what another program would have ended with. */
const READER_GONE = statusOfSignal(13);

guardInspector();
const [name = '', ...args] = ownArguments();
void main().then((status) => process.exit(status));

async function main(): Promise<ExitStatus> {
  const stopping = new AbortController();
  // Many requests listen at once: that is no leak.
  setMaxListeners(0, stopping.signal);
  const out = openOutput((why) => stopping.abort(why));
  const line = lineOf();
  const log = openLog('log' in line ? line.log : PLAIN);
  try {
    await prepareMd5();
    const status = await obey(line, { log, out, stopping });
    await out.flush();
    return status;
  } catch (error) {
    return error instanceof ReaderGone ? READER_GONE : failed(error, log);
  } finally {
    // Whatever failed, what was written before is not lost.
    await out.flush().catch(() => undefined);
    await log.close();
  }
}

function lineOf(): ParsedLine {
  if (isCommand(name)) {
    return parseLine(name, COMMANDS[name], args, { env: ownEnvironment(), cwd: process.cwd() });
  }
  const nearest = nearestWord(name, ARRAY_COMMAND_NAMES);
  const hint = nearest === undefined ? 'capture --help' : `capture ${nearest}`;
  return {
    kind: 'mistakes',
    mistakes: [{ message: `unknown command '${showPath(name)}'`, hint }],
    log: PLAIN,
  };
}

function isCommand(word: string): word is ArrayCommandName {
  return Object.hasOwn(COMMANDS, word);
}

interface Around {
  readonly log: Log;
  readonly out: Output;
  readonly stopping: AbortController;
}

async function obey(line: ParsedLine, around: Around): Promise<ExitStatus> {
  switch (line.kind) {
    case 'help':
    case 'version':
      await around.out.write(line.text);
      return EXIT.ok;
    case 'mistakes':
      for (const { message, hint } of line.mistakes) around.log.error(message, { event: 'mistake', hint });
      return EXIT.usage;
    case 'go':
      for (const warning of uncheckedCertificates(ownEnvironment())) warnOnce(around.log, warning);
      return untilStopped(line.carryOut, around);
  }
}

/** The first signal ends it as soon as it can, the second at once. */
async function untilStopped(carryOut: CarryOut, { log, out, stopping }: Around): Promise<ExitStatus> {
  const { signal } = stopping;
  const stops = openStops();
  void stops.second.then(({ number }) => process.exit(statusOfSignal(number)));
  void stops.first.then(({ signal: name, number }) =>
    stopping.abort(new CaptureError(statusOfSignal(number), `stopped by ${name}`)),
  );
  try {
    return await carryOut({ log, out, signal });
  } catch (error) {
    // Whatever else failed because of it.
    throw signal.aborted ? signal.reason : error;
  } finally {
    stops.close();
  }
}
