// Hands arguments and variables that are no UTF-8 to the task, although Node writes every string as UTF-8: sh(1) makes
// the bytes and then becomes the task. Costs nothing where all is UTF-8.
import { pathBytes } from '../model/path.ts';

export interface Words {
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute path of what `command` was found to be. */
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
}

/**
 * The first letter of each word says what it is: `=` a word as it is, `b` one to be made, `e` a variable. The dot
 * behind it keeps its last newline: $( ) takes those away.
 */
const MAKE_AND_BECOME = `capture_n=$#
while [ "$capture_n" -gt 0 ]; do
  case $1 in
    =*) capture_word=\${1#=} ;;
    *) capture_word=$(printf '%b.' "\${1#?}"); capture_word=\${capture_word%.} ;;
  esac
  case $1 in e*) export "$capture_word" ;; *) set -- "$@" "$capture_word" ;; esac
  shift
  capture_n=$((capture_n - 1))
done
unset capture_n capture_word
exec "$@"`;

/** What to start instead; the same where no byte would be lost. */
export function withBytes<T extends Words>(words: T): T {
  const { command, args, env } = words;
  const variables = Object.entries(env).filter(
    ([name, value]) => isBytes(value ?? '') && /^[A-Za-z_]\w*$/.test(name),
  );
  if (variables.length === 0 && ![command, ...args].some(isBytes)) return words;
  const made = [
    ...variables.map(([name, value]) => `e${escaped(`${name}=${value ?? ''}`)}`),
    ...[command, ...args].map((word) => (isBytes(word) ? `b${escaped(word)}` : `=${word}`)),
  ];
  return { ...words, command: 'sh', file: '/bin/sh', args: ['-c', MAKE_AND_BECOME, 'sh', ...made] };
}

function isBytes(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}

/** For %b of printf(1). */
function escaped(text: string): string {
  return Array.from(pathBytes(text), (byte) =>
    byte === 0x5c || byte >= 0x80 ? `\\0${byte.toString(8).padStart(3, '0')}` : String.fromCharCode(byte),
  ).join('');
}
