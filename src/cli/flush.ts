// `capture flush`: asks the sidecar over its control socket to wait until everything is stored, and prints the result.
// Scripts call it between their steps, so it loads nothing of a run except the names of its options.
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import { IS_LINKED, LINKED_HINT } from '../model/file/link-target.ts';
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
import { type HeldSocket, holdSocket } from '../native/held-socket.ts';
import { isOursOrRoots } from '../native/users.ts';
import type { Command, Line } from './command.ts';
import { optionsOf } from './options.ts';
import { refuseSocket } from './options/local.ts';
import { durationMs } from './options/readers.ts';
import { group } from './options/spec.ts';
import { say } from './say.ts';

const FLUSH = group('Flush:', {
  timeoutMs: {
    flags: '--timeout <duration>',
    help: 'the longest wait: ms, s, m, h, d',
    read: durationMs(),
    otherwise: '30s, with --ping 5s',
  },
  strict: { flags: '--strict', help: 'exit 74 also if a checkpoint is open, or its set is not complete' },
  ping: { flags: '--ping', help: 'only ask whether capture watches: a probe for containers' },
  control: {
    flags: '--control <path>',
    help: "the socket of a 'capture watch --control <path>'",
    otherwise: 'CAPTURED_SOCKET, then CAPTURE_CONTROL',
  },
});

const DEFAULT_TIMEOUT_MS = 30_000;
/** A running sidecar answers at once. A slower one hangs, and a probe must report that. */
const DEFAULT_PING_TIMEOUT_MS = 5000;
const NO_SOCKET =
  'call it in a task that capture runs, or name the socket of a capture watch: capture flush --control <path>';
const LONGER = 'wait longer with --timeout; the messages of capture itself say what stands in the way';
/** A sidecar that does not hang answers in time. We wait this much longer, then give up. */
const LATE_MS = 2000;
/** A dead sidecar is replaced within seconds. This is the interval of our retries. */
const AGAIN_MS = 100;
/** The message contains this many names, then the number of the others. */
const NAMED_LEFT = 20;

export interface FlushRequest {
  /** The path of the sidecar's socket; undefined if it was not given. */
  readonly socket: string | undefined;
  /** Fail if no run is there: something hints at a run, or the caller requires one. */
  readonly needsRun: boolean;
  readonly ping: boolean;
  /** An open checkpoint file, or an incomplete set, is an error, too. */
  readonly strict: boolean;
  readonly timeoutMs: number;
}

export const flushCommand: Command<FlushRequest> = {
  name: 'flush',
  help: {
    about:
      'Waits until everything that the task had closed before this call is durable and recorded: results are stored, ' +
      'and a complete set of checkpoints is committed. Companions, and results that are open and only appended to, are ' +
      'stored as far as they are written. Other open files are named on stderr.',
    notes: [
      `Call it in the scripts of a task, between steps. It vouches for what was closed: that stays good
however the task ends, so call it only if the step before has ended well. It finds capture by
CAPTURED_SOCKET, which capture sets for the task. A script that calls it works without capture, too:
outside a run it says that nothing is stored, and exits 0. It takes all options of a run; those that
are not here mean nothing to it.
`,
    ],
    statuses: {
      0:
        'all is durable and recorded; stderr says what is still missing from a set of checkpoints. Also outside a ' +
        'run, without --strict and --ping',
      69: 'nobody answers at the socket; or no socket is named, in a run or with --strict or --ping',
      74: 'not in time: stderr says what is not stored, and why',
    },
    examples: [
      'capture flush',
      'capture flush --timeout 5m || exit 1',
      'capture flush --ping --control /shared/control',
    ],
  },
  options: Object.values(FLUSH),
  // One list of options may serve all commands.
  idle: optionsOf('run'),
  variables: [FLUSH.control],
  isLight: true,
  needsNoDirectory: true,
  handlesSignals: true,
  read: readFlush,
  act: flush,
};

function readFlush({ values, env }: Line): FlushRequest {
  const { timeoutMs, ping, strict } = values.all(FLUSH);
  const { values: texts = [], source } = values.given(FLUSH.control) ?? {};
  const inTask = env['CAPTURED_SOCKET'] ?? '';
  const isOfTask = inTask !== '' && source?.startsWith('--') !== true;
  const socket = isOfTask ? inTask : texts.at(-1);
  if (socket !== undefined) refuseSocket(values, socket, isOfTask ? 'CAPTURED_SOCKET' : (source ?? ''));
  return {
    socket,
    needsRun: env['CAPTURED_RUN'] !== undefined || ping || strict,
    ping,
    strict,
    timeoutMs: timeoutMs ?? (ping ? DEFAULT_PING_TIMEOUT_MS : DEFAULT_TIMEOUT_MS),
  };
}

type FlushQuestion = Omit<FlushRequest, 'socket'> & { readonly socket: string };

/** The result of one try: an answer, or why there is none. `heard`: a process had accepted the request. */
type Try =
  | { readonly kind: 'answer'; readonly answer: ControlAnswer }
  | { readonly kind: 'nothing'; readonly why: string; readonly heard: boolean; readonly again: boolean };

/** Resolves to the exit status: 0, 69 if no sidecar answers, 74 if something was not stored in time. */
async function flush(request: FlushRequest): Promise<ExitStatus> {
  const { socket } = request;
  if (socket === undefined) {
    if (request.needsRun)
      throw new CaptureError(EXIT.unavailable, 'no control socket is named: CAPTURED_SOCKET is not set', {
        hint: NO_SOCKET,
      });
    say('capture flush: no capture runs this, so nothing is stored', 'warn');
    return EXIT.ok;
  }
  const question = { ...request, socket };
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

function ask(name: string, request: ControlRequest, withinMs: number): Promise<Try> {
  let held: HeldSocket;
  try {
    held = holdSocket(name);
  } catch (error) {
    const why = errnoOf(error) ?? reasonOf(error);
    return Promise.resolve({ kind: 'nothing', why, heard: false, again: false });
  }
  const { uid, path, release } = held;
  if (isOursOrRoots(uid)) return askAt(path, request, withinMs).finally(release);
  release();
  // In a directory where others may create files, such as /tmp, another user could listen, and claim that everything is
  // durable. Root believes nobody else either: the sidecar of another user answers it, and so would anything that this
  // user puts there.
  const why = `user ${uid} listens there, and you are ${process.geteuid?.()}`;
  return Promise.resolve({ kind: 'answer', answer: { kind: 'refused', why } });
}

function askAt(path: string, request: ControlRequest, withinMs: number): Promise<Try> {
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
      // The socket has no listener: a dead sidecar is being replaced. If the socket does not exist, there is no run.
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
    hint: left.some(({ why }) => why.endsWith(IS_LINKED)) ? LINKED_HINT : LONGER,
  });
  return EXIT.notStored;
}

function listed(names: readonly string[], count = names.length): string {
  const named = names.slice(0, NAMED_LEFT);
  return `${named.join(', ')}${count > named.length ? `, and ${count - named.length} more` : ''}`;
}
