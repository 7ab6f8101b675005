// `{index}` and `{column}` in the command of a task. `{{index}}` stands for `{index}`; braces around anything else than
// one name (JSON, awk, `${HOME}`, `{}`) stay as they are. Pure.
import { isMistake, type Mistake } from '../errors.ts';
import { nearestWord } from '../nearest.ts';
import { showPath } from '../path.ts';
import { ShellText } from './shell-text.ts';

/** What each name stands for in one task. All names that the command was compiled with are in it. */
export type TaskValues = Readonly<Record<string, string>>;

/** A command with its placeholders found and known. */
export interface CommandTemplate {
  /** The names that occur in it, each once. */
  readonly names: readonly string[];
  /** The arguments for one task, to be started without a shell between. */
  argvFor(values: TaskValues): readonly string[];
}

/** Text that stands as it is, or the name of a value, and how the value is written there. */
type Piece = string | { readonly name: string; readonly write: (value: string) => string };

/**
 * A command behind `--`: values are put in as they are, for no shell reads them. A name that is not in `known` is a
 * mistake, with the nearest one.
 */
export function compileArgv(
  argv: readonly string[],
  known: readonly string[],
): CommandTemplate | readonly Mistake[] {
  const words = argv.map((word) =>
    piecesOf(word, (_, name) => (known.includes(name) ? (value) => value : unknownName(name, known))),
  );
  return templateOf(words);
}

/**
 * A shell command in one string (a job file's `command`): its arguments are `sh -c <text>`. A value is quoted, so that
 * the shell reads it as one piece of text wherever it stands, inside of quotes, too. Behind `$(`, a backquote or `<<`
 * nobody but a shell knows how to quote: there a placeholder is a mistake, which says to use the variable. A comment stays
 * as it is: a value with a line feed would end it.
 */
export function compileShell(text: string, known: readonly string[]): CommandTemplate | readonly Mistake[] {
  const shell = new ShellText(text);
  const pieces = piecesOf(text, (at, name) => {
    const place = shell.placeAt(at);
    if (place.kind === 'comment') return undefined;
    if (!known.includes(name)) return unknownName(name, known);
    if (place.kind === 'unknown') {
      const variable = name === 'index' ? 'CAPTURED_INDEX' : name;
      return {
        message: `{${name}} stands behind ${place.behind}, where capture does not know how to quote its value`,
        hint: `write the variable that has the same value: "$${variable}"`,
      };
    }
    const around = { plain: '', single: "'", double: '"' }[place.kind];
    return (value) => `${around}${quoteForShell(value)}${around}`;
  });
  return templateOf([['sh'], ['-c'], pieces]);
}

/** As one word of a shell command: `it's` becomes `'it'\''s'`. */
function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A command as a person would type it: only what needs quotes has them. */
export function showCommand(argv: readonly string[]): string {
  return argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : quoteForShell(word))).join(' ');
}

/** How a value is written where it stands, or why it cannot be; undefined: what stands there is no placeholder. */
type WriterAt = (at: number, name: string) => ((value: string) => string) | Mistake | undefined;

function piecesOf(text: string, writerAt: WriterAt): readonly (Piece | Mistake)[] {
  const pieces: (Piece | Mistake)[] = [];
  let end = 0;
  for (const match of text.matchAll(/(\{+)([A-Za-z_]\w*)(\}+)/g)) {
    const [, open = '', name = '', close = ''] = match;
    // A shell's own `${name}`.
    if (open.length === 1 && text[match.index - 1] === '$') continue;
    const depth = Math.min(open.length, close.length);
    const from = match.index + open.length - depth;
    const until = from + 2 * depth + name.length;
    const [left, right] = ['{', '}'].map((brace) => brace.repeat(depth >> 1));
    pieces.push(text.slice(end, from));
    const write = depth % 2 === 0 ? undefined : writerAt(from, name);
    if (depth % 2 === 0) pieces.push(`${left}${name}${right}`);
    else if (write === undefined) pieces.push(text.slice(from, until));
    else pieces.push(left ?? '', isMistake(write) ? write : { name, write }, right ?? '');
    end = until;
  }
  pieces.push(text.slice(end));
  return pieces;
}

function unknownName(name: string, known: readonly string[]): Mistake {
  const nearest = nearestWord(name, known);
  const meant = nearest === undefined ? '' : `{${nearest}}; or `;
  return {
    message: `{${showPath(name)}} in the command is no placeholder: there is ${known.map((one) => `{${one}}`).join(', ')}`,
    hint: `${meant}{{${showPath(name)}}} if the command itself is to read it so`,
  };
}

function templateOf(words: readonly (readonly (Piece | Mistake)[])[]): CommandTemplate | readonly Mistake[] {
  const mistakes = words.flat().filter((piece) => isMistake(piece));
  if (mistakes.length > 0) return mistakes;
  const all = words.map((pieces) => pieces.filter((piece): piece is Piece => !isMistake(piece)));
  const names = all.flat().flatMap((piece) => (typeof piece === 'string' ? [] : piece.name));
  return {
    names: [...new Set(names)],
    argvFor: (values) => all.map((pieces) => pieces.map((piece) => textOf(piece, values)).join('')),
  };
}

function textOf(piece: Piece, values: TaskValues): string {
  if (typeof piece === 'string') return piece;
  const value = values[piece.name];
  if (value === undefined) throw new Error(`no value for {${piece.name}}`);
  return piece.write(value);
}
