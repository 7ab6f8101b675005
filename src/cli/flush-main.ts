// The entry point of `capture flush`. It is a program of its own, so that a script that calls it between two steps does
// not load the command line of a run.
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import { guardInspector } from '../native/inspector.ts';
import { FLUSH_HELP, parseFlushLine } from './flush-line.ts';
import { flush } from './flush.ts';
import { print, say } from './say.ts';

const NO_SOCKET =
  'call it in a task that capture runs, or name the socket of a capture watch: capture flush --control <path>';

guardInspector();
process.exit(await main());

async function main(): Promise<ExitStatus> {
  // Behind `flush` itself.
  const line = parseFlushLine(process.argv.slice(3), process.env);
  switch (line.kind) {
    case 'help':
      print(FLUSH_HELP);
      return EXIT.ok;
    case 'version':
      print(`${CAPTURE_VERSION}\n`);
      return EXIT.ok;
    case 'mistakes':
      for (const { message, hint } of line.mistakes) say(message, 'error', { hint });
      return EXIT.usage;
    case 'no-socket':
      say('no control socket is named: CAPTURED_SOCKET is not set', 'error', { hint: NO_SOCKET });
      return EXIT.unavailable;
    case 'ask':
      return flush(line, say);
  }
}
