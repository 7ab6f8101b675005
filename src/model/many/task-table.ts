// The file of `--tasks`: one shell command a line, or a table with a header (CSV, TSV) whose columns are placeholders
// and variables. Pure: the text is an argument.
import { CsvError, parse } from 'csv-parse/sync';
import { type IndexSet, rangesOf } from '../index-set.ts';
import { isMistake, type Mistake } from '../errors.ts';
import { showPath } from '../path.ts';
import { plural } from '../units.ts';
import type { TaskValues } from './placeholders.ts';

export type TaskFormat = 'lines' | 'csv' | 'tsv';

/** One task of the file. */
export interface TableTask {
  /** Its line in the file, counted from 1 as editors do: for messages. */
  readonly line: number;
  /** `lines`: the shell command. */
  readonly command: string | undefined;
  /** `csv`, `tsv`: the values by column, as `{name}` and as variables of the task; otherwise empty. */
  readonly values: TaskValues;
}

export interface TaskTable {
  readonly format: TaskFormat;
  /** The column names, which are valid variable names; none for `lines`. */
  readonly names: readonly string[];
  /** All indices that have a task. */
  readonly indices: IndexSet;
  readonly size: number;
  /** Undefined if the index has no task. */
  taskOf(index: number): TableTask | undefined;
}

export interface TaskFile {
  readonly name: string;
  readonly format: TaskFormat;
}

/** `.csv` and `.tsv` (`.tab`) are tables; any other file has one command a line. */
export function formatOfTasks(fileName: string): TaskFormat {
  if (/\.csv$/i.test(fileName)) return 'csv';
  return /\.(?:tsv|tab)$/i.test(fileName) ? 'tsv' : 'lines';
}

/**
 * The tasks of `text`. `lines`: line n of the file, counted from 0 as in an index map, is index n. A line that is
 * blank or begins with `#` is not a task and leaves its index unused, so commenting out a task moves no other. `csv`
 * and `tsv`: row n after the header is index n; quotes as in RFC 4180. A line may end in CR LF. Mistakes begin with
 * the file's name and the line.
 */
export function parseTasks(text: string, file: TaskFile): TaskTable | readonly Mistake[] {
  const nul = text.indexOf('\0');
  if (nul >= 0)
    return [mistakeAt(file, lineAt(text, nul), 'a NUL byte: this is no text', 'save it as UTF-8')];
  const plain = text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
  return file.format === 'lines' ? parseLines(plain, file) : parseRows(plain, file);
}

function parseLines(text: string, file: TaskFile): TaskTable | readonly Mistake[] {
  const lines = text.split('\n');
  const isTask = (line: string | undefined): line is string =>
    line !== undefined && !/^\s*(?:#|$)/.test(line);
  const indices = lines.flatMap((line, index) => (isTask(line) ? index : []));
  if (indices.length === 0) return [noTask(file, 'write one shell command a line')];
  return {
    format: 'lines',
    names: [],
    indices: { ranges: [...rangesOf(indices)] },
    size: indices.length,
    taskOf(index) {
      const command = lines[index];
      return isTask(command) ? { line: index + 1, command, values: {} } : undefined;
    },
  };
}

/** A row of a table, and the line in which it begins. */
interface Row {
  readonly line: number;
  readonly fields: readonly string[];
}

function parseRows(text: string, file: TaskFile): TaskTable | readonly Mistake[] {
  const rows = readRows(text, file);
  if (isMistake(rows)) return [rows];
  const [header, ...tasks] = rows;
  if (header === undefined || tasks.length === 0) {
    return [noTask(file, 'write the names of the columns into the first line, and one task into each other')];
  }
  const names = header.fields;
  const mistakes = names.flatMap((name, at) => {
    const wrong = wrongName(name, names.indexOf(name) !== at);
    return wrong === undefined
      ? []
      : mistakeAt(file, header.line, `column ${at + 1}: ${wrong.message}`, wrong.hint);
  });
  if (mistakes.length > 0) return mistakes;
  return {
    format: file.format,
    names,
    indices: { ranges: [{ first: 0, last: tasks.length - 1, step: 1 }] },
    size: tasks.length,
    taskOf(index) {
      const row = tasks[index];
      if (row === undefined) return undefined;
      const values = Object.fromEntries(names.map((name, at) => [name, row.fields[at] ?? '']));
      return { line: row.line, command: undefined, values };
    },
  };
}

function readRows(text: string, file: TaskFile): readonly Row[] | Mistake {
  const rows: Row[] = [];
  let lastLine = 0;
  try {
    parse(text, {
      delimiter: file.format === 'tsv' ? '\t' : ',',
      record_delimiter: '\n',
      skip_empty_lines: true,
      on_record: (fields: readonly string[], { lines }) => {
        const within = fields.reduce((sum, field) => sum + field.split('\n').length - 1, 0);
        rows.push({ line: lines - within, fields });
        lastLine = lines;
        return undefined;
      },
    });
    return rows;
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    return csvMistake(error, file, { lastLine, columns: rows[0]?.fields.length ?? 0 });
  }
}

function csvMistake(
  error: CsvError,
  file: TaskFile,
  { lastLine, columns }: { readonly lastLine: number; readonly columns: number },
): Mistake {
  const line = Number(error['lines'] ?? lastLine + 1);
  switch (error.code) {
    case 'CSV_RECORD_INCONSISTENT_FIELDS_LENGTH': {
      const fields: unknown = error['record'];
      const has = plural(Array.isArray(fields) ? fields.length : 0, 'value');
      const comma = file.format === 'tsv' ? 'a tab' : 'a comma';
      return mistakeAt(
        file,
        line,
        `${has}, and the header has ${plural(columns, 'column')}`,
        `put a value that holds ${comma} into double quotes`,
      );
    }
    case 'CSV_QUOTE_NOT_CLOSED':
      return mistakeAt(file, lastLine + 1, 'a quote that is opened here or below is never closed', QUOTES);
    case 'INVALID_OPENING_QUOTE':
      return mistakeAt(file, line, 'a quote in the midst of a value', QUOTES);
    case 'CSV_INVALID_CLOSING_QUOTE':
      return mistakeAt(file, line, 'a value goes on behind its closing quote', QUOTES);
    default:
      return mistakeAt(file, line, error.message, QUOTES);
  }
}

const QUOTES = 'put the whole value into quotes, and double each quote in it: "5"" pipe" (RFC 4180)';

/** Variables that would change how the task is started, rather than what it computes. */
const RESERVED = /^(?:CAPTURED?(?:_.*)?|LD_.*|PATH|HOME|SHELL|IFS|ENV|BASH_ENV|PWD|TMPDIR|NODE_OPTIONS)$/;

/** Why a column cannot be a placeholder and a variable. */
function wrongName(name: string, isTwice: boolean): Mistake | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name)) {
    return {
      message: `'${showPath(name)}' cannot be a variable: 1 to 64 letters, digits and _, and no digit first`,
      hint: suggestion(name),
    };
  }
  if (isTwice) return { message: `a second '${name}'`, hint: 'give each column a name of its own' };
  if (name === 'index')
    return { message: "'index' is the task's index already", hint: 'name it id, for example' };
  return RESERVED.test(name)
    ? { message: `'${name}' would change how the task is started`, hint: `${name.toLowerCase()}_of_task` }
    : undefined;
}

function suggestion(name: string): string {
  const words = name.trim().replaceAll(/[^A-Za-z0-9_]+/g, '_');
  const valid = words.replaceAll(/^_+|_+$/g, '').replace(/^(?=\d)/, '_');
  return valid === '' ? 'name each column, such as alpha' : valid.slice(0, 64);
}

function noTask({ name }: TaskFile, hint: string): Mistake {
  return { message: `'${showPath(name)}' holds no task`, hint };
}

function mistakeAt({ name }: TaskFile, line: number, what: string, hint: string): Mistake {
  return { message: `'${showPath(name)}', line ${line}: ${what}`, hint };
}

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}
