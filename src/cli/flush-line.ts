// Takes the arguments of `capture flush` apart, without a parser's weight: scripts call it between their steps.
// Pure; every mistake is found and none is printed.
import type { Mistake } from '../model/mistake.ts';
import { showPath } from '../model/path.ts';
import { nearestWord } from './nearest.ts';
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

export type FlushLine =
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
  | { readonly kind: 'no-socket' };

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
  return source === undefined
    ? { kind: 'no-socket' }
    : { kind: 'ask', ping, strict: given.has('--strict'), timeoutMs, socket };
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
