// `{index}` and `{column}` in the command of a task. `{{index}}` stands for `{index}`. Braces around anything but a
// name (JSON, awk, `${HOME}`, `{}`) stay as they are. Pure.
import { isMistake, type Mistake } from '../errors.ts';
import { nearestWord } from '../nearest.ts';
import { showPath } from '../path.ts';
import { ShellText } from './shell-text.ts';

/** The value of each name for one task. It has all names that the command was compiled with. */
export type TaskValues = Readonly<Record<string, string>>;

/** A command whose placeholders are found and known. */
export interface CommandTemplate {
  /** The names that it uses, each once. */
  readonly names: readonly string[];
  /** The arguments for one task, which is started without another shell. */
  argvFor(values: TaskValues): readonly string[];
}

/** Literal text, or the name of a value and how to write the value there. */
type Piece = string | { readonly name: string; readonly write: (value: string) => string };

/**
 * A command after `--`: values are inserted as they are, because no shell reads them. A name that is not in `known` is
 * a mistake, and the hint is the nearest known name.
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
 * A shell command in one string (a job file's `command`): its arguments are `sh -c <text>`. A value is quoted so that
 * the shell reads it as one piece of text wherever it stands, even inside quotes. After `$(`, a backquote or `<<` only
 * a shell knows how to quote: there a placeholder is a mistake, and the hint is to use the variable. Comments stay as
 * they are: a value with a line feed would end one.
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

/** A command as a person would type it: only arguments that need quotes have them. */
export function showCommand(argv: readonly string[]): string {
  return argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : quoteForShell(word))).join(' ');
}

/** How to write a value at this place, or why that is impossible; undefined: this is not a placeholder. */
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
