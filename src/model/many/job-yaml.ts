// The subset of YAML that a job file needs: keys, each with a text or a list of texts. Other YAML (an alias, a
// mapping, a tag) was nearly always meant as text. It is a mistake, and the hint shows how to quote it. Pure.
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type YAMLError } from 'yaml';
import { isMistake, type Mistake } from '../errors.ts';
import { showPath } from '../path.ts';

/** `retries: 3`. */
export interface JobEntry {
  readonly key: string;
  /** The line of the key, counted from 1. */
  readonly line: number;
  /** As written: `012` is not a number here. A list if it was written as a list. */
  readonly value: string | readonly string[];
}

export interface JobEntries {
  /** The entries that could be read, in order. */
  readonly entries: readonly JobEntry[];
  readonly mistakes: readonly Mistake[];
}

/** The keys of a job file. If it is not YAML, only the first mistake is reported: most others follow from it. */
export function readJobYaml(text: string, fileName: string): JobEntries {
  const lines = new LineCounter();
  const page: Page = { text, fileName, lineOf: (offset) => Math.max(1, lines.linePos(offset).line) };
  // `failsafe`: every value is text. The option interprets it, so `012`, `1e3` and `no` stay as written.
  const document = parseDocument(text, { schema: 'failsafe', prettyErrors: false, lineCounter: lines });
  const [error] = document.errors;
  if (error !== undefined) return { entries: [], mistakes: [syntaxMistake(page, error)] };
  const { contents } = document;
  if (!isMap<Node, Node | null>(contents)) {
    const mistake = mistakeIn(fileName, 1, 'a job file is one `key: value` a line', 'array: 0-99');
    return { entries: [], mistakes: [mistake] };
  }
  const found = contents.items.map(({ key, value }) => entryOf(page, key, value));
  return {
    entries: found.flatMap((entry) => (isMistake(entry) ? [] : [entry])),
    mistakes: found.filter(isMistake),
  };
}

/** The beginning of every mistake in a job file. */
export function mistakeIn(fileName: string, line: number, what: string, hint: string): Mistake {
  return { message: `${placeIn(fileName, line)}: ${what}`, hint };
}

export function placeIn(fileName: string, line: number): string {
  return `'${showPath(fileName)}', line ${line}`;
}

interface Page {
  readonly text: string;
  readonly fileName: string;
  readonly lineOf: (offset: number) => number;
}

function entryOf(page: Page, key: Node, value: Node | null): JobEntry | Mistake {
  const name = textOf(page, key);
  if (isMistake(name)) return name;
  const line = page.lineOf(offsetOf(key));
  const entry = (value: string | readonly string[]): JobEntry => ({ key: name, line, value });
  if (value === null) return entry('');
  if (!isSeq<Node>(value) || value.anchor !== undefined || value.tag !== undefined) {
    const text = textOf(page, value);
    return isMistake(text) ? text : entry(text);
  }
  const texts = value.items.map((item) => textOf(page, item));
  return texts.find(isMistake) ?? entry(texts.filter((text) => typeof text === 'string'));
}

function textOf({ text, fileName, lineOf }: Page, node: Node): string | Mistake {
  const { anchor, tag } = node as { readonly anchor?: string; readonly tag?: string };
  // A block of lines ends in a newline that nobody means.
  if (isScalar<string>(node) && anchor === undefined && tag === undefined)
    return node.value.replace(/\n$/, '');
  // The range of a node begins after its anchor and its tag.
  const sign = anchor === undefined ? (tag === undefined ? '' : '!') : '&';
  const start = sign === '' ? offsetOf(node) : text.lastIndexOf(sign, offsetOf(node));
  const written = isAlias(node) ? `*${node.source}` : text.slice(start, node.range?.[1]);
  const [meant = ''] = written.split('\n', 1);
  const line = lineOf(start);
  if (/^[*&!{[]/.test(meant)) {
    const sort = { '*': 'an alias', '&': 'an anchor', '!': 'a tag', '{': 'a mapping', '[': 'a list' }[
      meant[0] ?? ''
    ];
    return mistakeIn(
      fileName,
      line,
      `YAML reads ${showPath(meant)} as ${sort}, for its first character`,
      quoted(meant),
    );
  }
  return mistakeIn(fileName, line, 'only a text or a list of texts can stand here', quoted(meant));
}

function offsetOf({ range }: Node): number {
  return range?.[0] ?? 0;
}

/** In YAML's single quotes only a quote is special. */
function quoted(text: string): string {
  return `put it into quotes: '${text.replaceAll("'", "''")}'`;
}

function syntaxMistake({ text, fileName, lineOf }: Page, { code, message, pos }: YAMLError): Mistake {
  const [at] = pos;
  const say = (what: string, hint: string): Mistake => mistakeIn(fileName, lineOf(at), what, hint);
  const [rest = ''] = text.slice(at).split('\n', 1);
  switch (code) {
    case 'DUPLICATE_KEY':
      return say(
        `a second ${/^[^\s:]*/.exec(rest)?.[0]}`,
        'write each key once; several values are a list: [a, b]',
      );
    case 'TAB_AS_INDENT':
      return say('a tab at the beginning of a line', 'indent by spaces');
    case 'BAD_SCALAR_START':
      return say(`YAML has no text that begins with ${rest[0]}`, quoted(rest.trimEnd()));
    case 'BLOCK_AS_IMPLICIT_KEY':
      return say(
        'a key inside of a value',
        "put a value that holds ': ' into quotes, and begin each key at the beginning of its line",
      );
    case 'MULTILINE_IMPLICIT_KEY':
      return say("a line without ': '", 'write key: value');
    case 'MULTIPLE_DOCS':
      return say('a second document begins', 'leave out the line ---');
    default:
      return message.startsWith('Missing closing')
        ? say(
            'a quote that is opened here or above is never closed',
            "close it; in single quotes '' is a quote",
          )
        : say(message, 'put values that hold other signs than letters and digits into quotes');
  }
}
