import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Mistake } from '../../../src/model/errors.ts';
import { indicesOf } from '../../../src/model/index-set.ts';
import { formatOfTasks, parseTasks, type TaskTable } from '../../../src/model/many/task-table.ts';

const parsed = (text: string, name: string): TaskTable | readonly Mistake[] =>
  parseTasks(text, { name, format: formatOfTasks(name) });
const tableOf = (text: string, name: string): TaskTable => {
  const found = parsed(text, name);
  if (!('format' in found)) throw new Error(found.map(({ message }) => message).join('\n'));
  return found;
};
const rowsOf = (table: TaskTable): readonly unknown[] =>
  [...indicesOf(table.indices)].map((index) => table.taskOf(index));

it.each([
  ['tasks', 'lines'],
  ['tasks.txt', 'lines'],
  ['grid.csv', 'csv'],
  ['grid.TSV', 'tsv'],
  ['grid.tab', 'tsv'],
])('%s has the format %s', (name, format) => {
  expect(formatOfTasks(name)).toBe(format);
});

describe('one shell command a line', () => {
  it('is the index of its line, from 0; a comment or a blank line moves no other', () => {
    const table = tableOf('# runs\n./task a # 1\n\n  #./task b\n./task "c"\r\n', 'tasks');
    expect([...indicesOf(table.indices)]).toEqual([1, 4]);
    expect(table).toMatchObject({ names: [], size: 2 });
    expect(rowsOf(table)).toEqual([
      { line: 2, command: './task a # 1', values: {} },
      { line: 5, command: './task "c"', values: {} },
    ]);
    expect([table.taskOf(0), table.taskOf(5)]).toEqual([undefined, undefined]);
  });

  it('stays where it is whatever other lines are commented out', () => {
    const lines = fc.array(fc.tuple(fc.stringMatching(/^[a-z][a-z #]{0,5}$/), fc.boolean()), {
      minLength: 1,
    });
    fc.assert(
      fc.property(lines, (some) => {
        fc.pre(some.some(([, isIn]) => isIn));
        const table = tableOf(
          some.map(([command, isIn]) => (isIn ? command : `# ${command}`)).join('\n'),
          'tasks',
        );
        for (const [index, [command, isIn]] of some.entries())
          expect(table.taskOf(index)?.command).toBe(isIn ? command : undefined);
      }),
    );
  });

  it.each(['', '\n\n', '# all\n#./task'])('must be there: %j holds none', (text) => {
    expect(parsed(text, 'tasks')).toEqual([
      { message: "'tasks' holds no task", hint: 'write one shell command a line' },
    ]);
  });
});

describe('a table', () => {
  it('gives each row behind the header its index, and its values by column', () => {
    const table = tableOf('\uFEFFalpha,name\r\n1,"x\ny"\r\n\r\n2.5,"say ""hi"", you"\r\n', 'grid.csv');
    expect(table).toMatchObject({ names: ['alpha', 'name'], size: 2 });
    expect([...indicesOf(table.indices)]).toEqual([0, 1]);
    expect(rowsOf(table)).toEqual([
      { line: 2, command: undefined, values: { alpha: '1', name: 'x\ny' } },
      { line: 5, command: undefined, values: { alpha: '2.5', name: 'say "hi", you' } },
    ]);
  });

  it.each([',', '\t'])(
    'comes back as it was written, separated by %j, with the line of each row',
    (separator) => {
      const name = separator === ',' ? 'grid.csv' : 'grid.tsv';
      const field = fc.string({ unit: fc.constantFrom(...`ab ,\t"#'\\\né`.split('')) });
      const quoted = (text: string, always: boolean): string =>
        always || /[",\t\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
      fc.assert(
        fc.property(
          fc.array(fc.tuple(field, field, fc.boolean()), { minLength: 1, maxLength: 8 }),
          fc.constantFrom('\n', '\r\n'),
          (rows, newline) => {
            const lines = rows.map(([a, b, always]) => quoted(a, always) + separator + quoted(b, always));
            const table = tableOf(
              [`a${separator}b`, ...lines, ''].join('\n').replaceAll('\n', newline),
              name,
            );
            let line = 2;
            for (const [index, [a, b]] of rows.entries()) {
              expect(table.taskOf(index)).toEqual({ line, command: undefined, values: { a, b } });
              line += 1 + (`${a}|${b}`.match(/\n/g)?.length ?? 0);
            }
            expect(table.size).toBe(rows.length);
          },
        ),
      );
    },
  );

  it.each([
    [
      'a row with too few values',
      'a,b\n1,2\n3\n',
      "'grid.csv', line 3: 1 value, and the header has 2 columns",
    ],
    ['a row with too many', 'a\n1\n\n3,4\n', "'grid.csv', line 4: 2 values, and the header has 1 column"],
    [
      'a quote that is never closed',
      'a,b\n1,2\n3,"4\n5,6\n',
      "'grid.csv', line 3: a quote that is opened here or below is never closed",
    ],
    [
      'a quote in the midst of a value',
      'a\n5" pipe\n',
      "'grid.csv', line 2: a quote in the midst of a value",
    ],
    ['text behind a quote', 'a\n"5"x\n', "'grid.csv', line 2: a value goes on behind its closing quote"],
    ['a NUL byte', 'a\n1\n\0', "'grid.csv', line 3: a NUL byte: this is no text"],
    ['no row', 'a,b\n', "'grid.csv' holds no task"],
    ['nothing', '', "'grid.csv' holds no task"],
    [
      'a column without a name',
      'a,\n1,2\n',
      "'grid.csv', line 1: column 2: '' cannot be a variable: 1 to 64 letters, digits and _, and no digit first",
    ],
    ['a column twice', 'a,b,a\n1,2,3\n', "'grid.csv', line 1: column 3: a second 'a'"],
    [
      'the name of the index',
      'index\n1\n',
      "'grid.csv', line 1: column 1: 'index' is the task's index already",
    ],
    [
      'a variable of the system',
      'PATH\n1\n',
      "'grid.csv', line 1: column 1: 'PATH' would change how the task is started",
    ],
    [
      'a variable of capture',
      'CAPTURE_TO\n1\n',
      "'grid.csv', line 1: column 1: 'CAPTURE_TO' would change how the task is started",
    ],
  ])('is refused with its line: %s', (_what, text, message) => {
    const found = parsed(text, 'grid.csv');
    expect('format' in found ? [] : found.map((mistake) => mistake.message)).toEqual([message]);
  });

  it.each([
    ['step size', 'step_size'],
    [' beta', 'beta'],
    ['2theta', '_2theta'],
    ['temperature [K]', 'temperature_K'],
    ['[]', 'name each column, such as alpha'],
  ])('a column that is called %j may be called %s', (name, hint) => {
    expect(parsed(`${name}\n1\n`, 'grid.csv')).toMatchObject([{ hint }]);
  });

  it('is read or refused, whatever the text, and a task never has less than its header', () => {
    const text = fc.string({ unit: fc.constantFrom(...`ab,"\t\n\r#\uFEFF`.split('')) });
    fc.assert(
      fc.property(text, fc.constantFrom('grid.csv', 'grid.tsv', 'tasks'), (some, name) => {
        const found = parsed(some, name);
        if (!('format' in found)) return;
        for (const index of indicesOf(found.indices))
          expect(Object.keys(found.taskOf(index)?.values ?? {})).toEqual(found.names);
      }),
      { numRuns: 1000 },
    );
  });
});
