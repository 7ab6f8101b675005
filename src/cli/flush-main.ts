// The entry point of `capture flush`: asks the sidecar over its control socket, and says what came of it. It is a program
// of its own, so that a script that calls it between two steps does not load the command line of a run.
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import {
  type ControlAnswer,
  controlLine,
  type ControlRequest,
  type Flushed,
  LONGEST_LINE_BYTES,
  parseAnswer,
} from '../model/format/control.ts';
import { showPath } from '../model/path.ts';
import { formatMs, plural } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';
import { guardInspector } from '../native/inspector.ts';
import { FLUSH_HELP, parseFlushLine } from './flush-line.ts';
import { print, say } from './say.ts';

const NO_SOCKET =
  'call it in a task that capture runs, or name the socket of a capture watch: capture flush --control <path>';
const LONGER = 'wait longer with --timeout; the messages of capture itself say what stands in the way';
/** The sidecar answers in time, unless it hangs: we wait this much longer, and then give up. */
const LATE_MS = 2000;
/** A sidecar that died is replaced within seconds: we ask again this often. */
const AGAIN_MS = 100;
/** So many names stand in the message, then how many more there are. */
const NAMED_LEFT = 20;

interface FlushQuestion {
  readonly socket: string;
  readonly ping: boolean;
  readonly strict: boolean;
  readonly timeoutMs: number;
}

/** How one try ended: with an answer, or why there is none. `heard`: somebody had taken the question. */
type Try =
  | { readonly kind: 'answer'; readonly answer: ControlAnswer }
  | { readonly kind: 'nothing'; readonly why: string; readonly heard: boolean; readonly again: boolean };

guardInspector();
void main().then((status) => process.exit(status));

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
    case 'no-run':
      say('capture flush: no capture runs this, so nothing is stored', 'warn');
      return EXIT.ok;
    case 'ask':
      return flush(line);
  }
}

/** Resolves to the exit status: 0, 69 if nobody answers, 74 if something is not stored in time. */
async function flush(question: FlushQuestion): Promise<ExitStatus> {
  const last = await askUntil(question, clockMs() + question.timeoutMs);
  if (last.kind === 'answer') return judge(last.answer, question);
  const where = showPath(question.socket);
  if (last.heard && !question.ping) {
    say(`capture did not answer within ${formatMs(question.timeoutMs)}: ${last.why}`, 'error', {
      hint: LONGER,
    });
    return EXIT.notStored;
  }
  say(`nobody answers at ${where}: ${last.why}`, 'error', {
    hint: 'is the capture that listens there still running?',
  });
  return EXIT.unavailable;
}

async function askUntil({ socket, ping, timeoutMs }: FlushQuestion, deadlineMs: number): Promise<Try> {
  let heard = false;
  for (;;) {
    const leftMs = Math.max(0, deadlineMs - clockMs());
    const request: ControlRequest = ping ? { kind: 'ping' } : { kind: 'flush', timeoutMs: leftMs };
    // oxlint-disable-next-line no-await-in-loop -- one try after the other
    const last = await ask(socket, request, ping ? leftMs : leftMs + LATE_MS);
    if (last.kind === 'answer') return last;
    heard ||= last.heard;
    if (!last.again || ping || leftMs <= AGAIN_MS || timeoutMs === 0) return { ...last, heard };
    // oxlint-disable-next-line no-await-in-loop -- one try after the other
    await sleep(AGAIN_MS);
  }
}

function ask(path: string, request: ControlRequest, withinMs: number): Promise<Try> {
  return new Promise((resolve) => {
    let text = '';
    let heard = false;
    const nothing = (why: string, again: boolean): void => resolve({ kind: 'nothing', why, heard, again });
    const socket = net.connect(path, () => {
      heard = true;
      socket.write(controlLine(request));
    });
    socket.setEncoding('utf8');
    const late = setTimeout(() => {
      nothing('it hangs', false);
      socket.destroy();
    }, withinMs);
    socket.on('data', (chunk: string) => {
      text += chunk;
      const end = text.indexOf('\n');
      if (end === -1 && text.length <= LONGEST_LINE_BYTES) return;
      const answer = parseAnswer(text.slice(0, Math.max(0, end)));
      if (answer === undefined) nothing('its answer makes no sense', false);
      else resolve({ kind: 'answer', answer });
      socket.destroy();
    });
    socket.on('error', (error) => {
      const errno = errnoOf(error);
      // Nobody listens: a sidecar that died is being replaced. A socket that is not there belongs to no run.
      if (!heard) nothing(errno ?? error.message, errno === 'ECONNREFUSED' || errno === 'EAGAIN');
    });
    socket.on('close', () => {
      clearTimeout(late);
      nothing('it died', true);
    });
  });
}

function judge(answer: ControlAnswer, question: FlushQuestion): ExitStatus {
  switch (answer.kind) {
    case 'watching':
      return EXIT.ok;
    case 'flushed':
      return tell(answer, question);
    case 'refused':
      say(`capture does not answer at ${showPath(question.socket)}: ${answer.why}`, 'error', {
        hint: 'run capture flush as the user of capture',
      });
      return EXIT.unavailable;
  }
}

function tell({ left, more, incomplete, open }: Flushed, { timeoutMs, strict }: FlushQuestion): ExitStatus {
  const unsafe = strict && (incomplete !== undefined || open.some(({ checkpoint }) => checkpoint));
  if (incomplete !== undefined)
    say(`the newest checkpoint files are not a complete set yet: ${incomplete}`, unsafe ? 'error' : 'warn');
  if (open.length > 0) {
    const named = open.map(({ path, checkpoint }) => (checkpoint ? `${path} (a checkpoint)` : path));
    say(`open, and not stored before the task closes it: ${listed(named)}`, unsafe ? 'error' : 'warn');
  }
  const count = left.length + more;
  if (count === 0) return unsafe ? EXIT.notStored : EXIT.ok;
  const named = left.map(({ path, why }) => `${path} (${why})`);
  say(`${plural(count, 'file')} not stored within ${formatMs(timeoutMs)}: ${listed(named, count)}`, 'error', {
    hint: LONGER,
  });
  return EXIT.notStored;
}

function listed(names: readonly string[], count = names.length): string {
  const named = names.slice(0, NAMED_LEFT);
  return `${named.join(', ')}${count > named.length ? `, and ${count - named.length} more` : ''}`;
}
