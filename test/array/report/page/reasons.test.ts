import { expect, it } from 'vitest';
import type { IndexEntry, Report, Said } from '../../../../src/array/report/data.ts';
import { lineWords, reasonsOf } from '../../../../src/array/report/page/reasons.ts';
import { messageLines } from '../../../../src/model/format/message-line.ts';

const TEXTS = ['node1', 'failed: the task exited 3', 'failed: the task exited 9'];

function failed(
  index: string,
  how: number,
  ...said: readonly (readonly [string, ...string[]])[]
): IndexEntry {
  return {
    index,
    state: 'failed',
    attempts: [{ attempt: 1, from: 0, ran: 1, kept: 0, end: 'failed', host: 0, how }],
    said: said.length === 0 ? undefined : said.map(([stream, ...lines]): Said => ({ stream, lines })),
  };
}

function reasons(...entries: readonly IndexEntry[]): readonly unknown[] {
  const head = { format: 1, store: '', task: 't', now: 0, capture: '0', texts: TEXTS } as const;
  const report: Report = { head, entries };
  return reasonsOf(report, entries).map(({ how, line, entries: of }) => [
    how,
    line,
    of.map(({ index }) => index).join(' '),
  ]);
}

it('counts failures by how they ended and by their last line, the most frequent first', () => {
  const bad = ['stderr', 'reading', 'cannot open the input', ''] as const;
  expect(
    reasons(
      failed('0', 1, ['stderr', 'killed by hand']),
      failed('1', 1, bad),
      failed('2', 2, bad),
      failed('3', 1, ['stdout', 'step 7'], bad),
      { ...failed('4', 1, bad), state: 'done' },
    ),
  ).toEqual([
    [TEXTS[1], 'cannot open the input', '1 3'],
    [TEXTS[1], 'killed by hand', '0'],
    [TEXTS[2], 'cannot open the input', '2'],
  ]);
});

it('ignores the numbers in which the lines of two tasks differ, and shows those in which they do not', () => {
  expect(
    reasons(
      failed('0', 1, ['output', '12:30:07 /scratch/10/in.dat: No such file']),
      failed('1', 1, ['output', '12:31:10 /scratch/11/in.dat: No such file']),
      failed('2', 1, ['output', 'error 42 at 0x7ffe']),
    ),
  ).toEqual([
    [TEXTS[1], '…:…:… /scratch/…/in.dat: No such file', '0 1'],
    [TEXTS[1], 'error 42 at 0x7ffe', '2'],
  ]);
});

it('counts by how they ended alone where no output is stored', () => {
  expect(reasons(failed('0', 1), failed('1', 1), failed('2', 2))).toEqual([
    [TEXTS[1], undefined, '0 1'],
    [TEXTS[2], undefined, '2'],
  ]);
});

it("takes no message of capture's for the last line of the task, in whatever form", () => {
  const hint = 'look at this';
  const own = [undefined, new Date()].flatMap((at) =>
    messageLines('warn', 'a checkpoint is late', hint, at)
      .replaceAll('\u001b[K', String.raw`\x1b[K`)
      .split('\n'),
  );
  expect(
    reasons(failed('0', 1, ['stderr', 'out of range', ...own]), failed('1', 1, ['stderr', ...own])),
  ).toEqual([
    [TEXTS[1], 'out of range', '0'],
    [TEXTS[1], undefined, '1'],
  ]);
});

it('is found by its own words', () => {
  const entries = [7, 8].map((at) => failed(String(at), 1, ['output', `/scratch/${at}: No such file`]));
  const head = { format: 1, store: '', task: 't', now: 0, capture: '0', texts: TEXTS } as const;
  const [reason] = reasonsOf({ head, entries }, entries);
  expect(reason?.query).toBe(`${TEXTS[1]} /scratch/…: No such file`);
  for (const entry of entries)
    for (const word of ['/scratch/…:', `/scratch/${entry.index}:`]) expect(lineWords(entry)).toContain(word);
});
