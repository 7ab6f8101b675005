// The command line of `capture flush`: its help, and the reading of its arguments. It loads no parser: scripts call it
// between their steps. Pure; it finds every mistake and prints none.
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';
import { nearestWord } from '../model/nearest.ts';
import { OPTION_NAMES, OPTIONS } from './options.ts';
import { socketMistakes } from './options/local.ts';
import { durationMs } from './options/readers.ts';
import { lacksValue } from './options/spec.ts';

const DEFAULT_TIMEOUT_MS = 30_000;
/** A sidecar that watches answers at once: who takes longer hangs, and a probe must hear of it. */
const DEFAULT_PING_TIMEOUT_MS = 5000;
/** Each with whether it takes a value. */
const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['--timeout', true],
  ['--strict', false],
  ['--ping', false],
  ['--control', true],
  ['--help', false],
  ['--version', false],
]);
const SHORT: Readonly<Record<string, string>> = { '-h': '--help', '-V': '--version' };
/** With the options of a run, which mean nothing here: one list of options may serve all commands. */
const KNOWN: ReadonlyMap<string, boolean> = new Map([
  ...OPTION_NAMES.filter((name) => OPTIONS[name].on.includes('run')).flatMap((name) =>
    flagsOf(OPTIONS[name].flags).map((flag): [string, boolean] => [flag, OPTIONS[name].kind !== 'flag']),
  ),
  ...FLAGS,
]);

/** What `capture flush --help` prints. */
export const FLUSH_HELP = `Usage: capture flush [options]

Waits until everything that the task had closed before this call is durable and recorded: results
are stored, and a complete set of checkpoints is committed. Companions, and results that are open
and only appended to, are stored as far as they are written. Other open files are named on stderr.

Call it in the scripts of a task, between steps. It vouches for what was closed: that stays good
however the task ends, so call it only if the step before has ended well. It finds capture by
CAPTURED_SOCKET, which capture sets for the task. A script that calls it works without capture, too:
outside a run it says that nothing is stored, and exits 0. It takes all options of a run; those that
are not here mean nothing to it.

Options:
  --timeout <duration>  the longest wait: ms, s, m, h, d (default: 30s, with --ping 5s)
  --strict              exit 74 also if a checkpoint is open, or its set is not complete
  --ping                only ask whether capture watches: a probe for containers
  --control <path>      the socket of a 'capture watch --control <path>'
                        (default: CAPTURED_SOCKET, then CAPTURE_CONTROL)
  -h, --help            this text
  -V, --version         the version of capture

Exit status:
    0  all is durable and recorded; stderr says what is still missing from a set of checkpoints.
       Also outside a run, without --strict and --ping
   64  an option is wrong
   69  nobody answers at the socket; or no socket is named, in a run or with --strict or --ping
   74  not in time: stderr says what is not stored, and why

Examples:
  capture flush
  capture flush --timeout 5m || exit 1
  capture flush --ping --control /shared/control
`;

type FlushLine =
  | { readonly kind: 'help' | 'version' }
  | { readonly kind: 'mistakes'; readonly mistakes: readonly Mistake[] }
  | {
      readonly kind: 'ask';
      readonly ping: boolean;
      /** A checkpoint that is open, or a set that is not complete, is not forgiven either. */
      readonly strict: boolean;
      readonly timeoutMs: number;
      /** Where the sidecar listens. */
      readonly socket: string;
    }
  /** Nobody said where. */
  | { readonly kind: 'no-socket' }
  /** The same, and nothing hints at a run: the script was started without capture. */
  | { readonly kind: 'no-run' };

/** `args` are those behind `flush`. A socket is named by `--control`, or by what capture told the task. */
export function parseFlushLine(args: readonly string[], env: NodeJS.ProcessEnv): FlushLine {
  const mistakes: Mistake[] = [];
  const given = new Map<string, string>();
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    const [word = '', inline] = /^(--[a-z-]+)=(.*)$|^(-[a-zA-Z])(.+)$/s
      .exec(arg)
      ?.slice(1)
      .filter(isText) ?? [arg];
    const flag = SHORT[word] ?? word;
    const takesValue = KNOWN.get(flag);
    if (takesValue === undefined) mistakes.push(unknown(word));
    else if (!takesValue) {
      given.set(flag, '');
      if (inline !== undefined)
        mistakes.push({ message: `${word} takes no value`, hint: `write ${word} alone` });
    } else {
      const value = inline ?? rest.shift();
      if (value === undefined || KNOWN.has(value)) mistakes.push(lacksValue(word));
      else given.set(flag, value);
    }
  }
  if (given.has('--help')) return { kind: 'help' };
  if (given.has('--version')) return { kind: 'version' };
  const ping = given.has('--ping');
  const timeoutMs = timeoutOf(given.get('--timeout'), ping, mistakes);
  const source = given.has('--control')
    ? '--control'
    : ['CAPTURED_SOCKET', 'CAPTURE_CONTROL'].find((name) => (env[name] ?? '') !== '');
  const socket = given.get('--control') ?? env[source ?? ''] ?? '';
  if (source !== undefined) mistakes.push(...socketMistakes(socket, source));
  if (mistakes.length > 0) return { kind: 'mistakes', mistakes };
  const strict = given.has('--strict');
  if (source !== undefined) return { kind: 'ask', ping, strict, timeoutMs, socket };
  const isInRun = env['CAPTURED_RUN'] !== undefined;
  return { kind: isInRun || ping || strict ? 'no-socket' : 'no-run' };
}

function timeoutOf(text: string | undefined, ping: boolean, mistakes: Mistake[]): number {
  if (text === undefined) return ping ? DEFAULT_PING_TIMEOUT_MS : DEFAULT_TIMEOUT_MS;
  const read = durationMs()(text);
  if ('value' in read) return read.value;
  mistakes.push({ message: `--timeout '${showPath(text)}': ${read.is}`, hint: `--timeout ${read.example}` });
  return DEFAULT_TIMEOUT_MS;
}

/** `-r, --results <pattern>` → `-r`, `--results`. */
function flagsOf(flags: string): readonly string[] {
  return flags.split(/[ ,]+/).filter((word) => word.startsWith('-'));
}

function isText(part: string | undefined): part is string {
  return part !== undefined;
}

function unknown(word: string): Mistake {
  const nearest = nearestWord(word, [...FLAGS.keys()]);
  return word.startsWith('-')
    ? { message: `unknown option ${showPath(word)}`, hint: nearest ?? 'capture flush --help' }
    : { message: `capture flush takes no '${showPath(word)}'`, hint: 'capture flush --help' };
}
