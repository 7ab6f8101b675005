// Values in shell commands, against real shells: whatever the command looks like, a value is the same piece of text that a
// harmless one would be, and nothing of it runs. SHELL_TEMPLATES=10000 tries so many.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compileShell } from '../../../src/model/many/placeholders.ts';

const TEMPLATES = Number(process.env['SHELL_TEMPLATES'] ?? 100);
const ALL: readonly (readonly string[])[] = [
  ['sh'],
  ['dash'],
  ['bash'],
  ['bash', '--posix'],
  ['busybox', 'sh'],
];
const SHELLS = ALL.filter(([file = '', ...args]) => spawnSync(file, [...args, '-c', ':']).status === 0);

/** `p` shows its words, and only what runs that should not calls `pwn`. */
const PRELUDE = `set -f; x=1; set -- one two
p() { printf '%s\\0' "$@"; printf '\\1'; }
pwn() { printf '\\2'; }
`;
const PIECES = [
  '{alpha}',
  '{alpha}',
  '{alpha}',
  '{index}',
  '{{alpha}}',
  'p ',
  'p ',
  'a',
  ' ',
  ' ',
  '\n',
  '\n',
  '\t',
  '\r',
  '\u00a0',
  "'",
  "'",
  '"',
  '"',
  '\\',
  '\\',
  '\\\n',
  '#',
  '#',
  ' #',
  '\n#',
  '$',
  '$x',
  '${x}',
  '$#',
  '${#x}',
  '`',
  '$(',
  ')',
  ';',
  '&&',
  '||',
  '|',
  '(',
  '{ ',
  '; }',
  '!',
  '<',
  '>',
  '<<',
  '=',
  ' =~ ',
  'x=',
  'x[',
  ']',
  '$[',
  '((',
  '))',
  'a=(',
  ' [',
  ']=',
  '[[ ',
  ' ]]',
  'if ',
  '; then ',
  '; fi',
  'case a in ',
  ') ',
  ';; esac',
  '~',
  '*',
  '-',
];
const NASTY = [
  "'",
  '"',
  '\\',
  '\n',
  '\r',
  ' ',
  '#',
  ';',
  '&',
  '|',
  '`',
  '$',
  '(',
  ')',
  '{',
  '}',
  '<',
  '>',
  'é',
  'alpha',
  '~',
  '!',
  '*',
  "';pwn;'",
  '";pwn;"',
  '\npwn\n',
  '$(pwn)',
  '`pwn`',
  'a[$(pwn)]',
  "\\';pwn;#",
  '"\npwn\n"',
  "'\npwn\n'",
  '{index}',
  '$x',
];
const HARMLESS = 'MARKmark';

/** Each text of $1/<n>.sh by the shell behind it, in a directory of its own: <n>.said is what it said, with its status. */
const DRIVER = `cd "$1" || exit; shift
for file in *.sh; do
  name=\${file%.sh}; text=$(cat "$file"; echo .)
  mkdir "$name.work"
  (cd "$name.work" && exec "$@" -c "\${text%.}") </dev/null >"$name.said" 2>/dev/null
  printf '\\n%s' "$?" >>"$name.said"
done`;
const CHUNK = 250;

let dir: string;
beforeAll(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-shell-text-'));
});
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

function said(shell: readonly string[], texts: readonly string[]): readonly string[] {
  const place = fs.mkdtempSync(path.join(dir, 'run-'));
  for (const [n, text] of texts.entries()) fs.writeFileSync(path.join(place, `${n}.sh`), text);
  const env = { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8' };
  spawnSync('sh', ['-c', DRIVER, 'sh', place, ...shell], { env, stdio: 'ignore' });
  // `~-` is the directory before, which has another name each time.
  const found = texts.map((_, n) =>
    fs.readFileSync(path.join(place, `${n}.said`), 'utf8').replaceAll(place, 'PLACE'),
  );
  fs.rmSync(place, { recursive: true });
  return found;
}

interface Case {
  readonly text: string;
  readonly alpha: string;
  readonly filled: (alpha: string) => string;
}

const template = fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 14 });
const value = fc.array(fc.constantFrom(...NASTY), { minLength: 1, maxLength: 4 });

/** Endless: commands that are no mistakes, with values. */
function* cases(seed: number): Generator<Case> {
  for (let from = seed; ; from += 1)
    for (const [pieces, parts] of fc.sample(fc.tuple(template, value), { numRuns: 1000, seed: from })) {
      const text = pieces.join('');
      const compiled = compileShell(`${PRELUDE}p ${text}`, ['index', 'alpha']);
      if (!('argvFor' in compiled) || compiled.names.length === 0) continue;
      // A process has another id each time, what is left in the background ends at any time, and bash drops a last
      // backslash only of several lines.
      if (/\$\$|\\&|\\$/.test(text.replaceAll('\\\n', ''))) continue;
      const filled = (alpha: string): string => compiled.argvFor({ index: '7', alpha }).at(-1) ?? '';
      yield { text, alpha: `;${parts.join('')}`, filled };
    }
}

it('puts values into any command as nothing but text', { timeout: 3_600_000 }, () => {
  const seed = Math.floor(Math.random() * 2 ** 30);
  const all = cases(seed);
  for (let left = TEMPLATES; left > 0; left -= CHUNK) {
    const chunk = Array.from({ length: Math.min(CHUNK, left) }, () => all.next().value as Case);
    for (const shell of SHELLS) {
      const harmless = said(
        shell,
        chunk.map(({ filled }) => filled(HARMLESS)),
      );
      const nasty = said(
        shell,
        chunk.map(({ filled, alpha }) => filled(alpha)),
      );
      const wrong = chunk.flatMap(({ text, alpha }, n) => {
        const wanted = (harmless[n] ?? '').replaceAll(HARMLESS, () => alpha);
        return nasty[n] === wanted ? [] : [{ shell, seed, text, alpha, wanted, said: nasty[n] }];
      });
      expect(wrong).toEqual([]);
    }
  }
});
