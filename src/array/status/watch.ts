// `capture status --watch`: the table again and again on a terminal; a line with the numbers where there is none.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Tools } from '../../cli/command.ts';
import { lookAgain } from '../look-again.ts';
import { STATES } from '../state.ts';
import { summaryOf, writeTable } from './table.ts';
import type { View } from './view.ts';

/** To the top left, and from there nothing (ECMA-48, CUP and ED): what scrolled away before stays. */
const CLEAR = '\u001B[H\u001B[J';

/** Resolves to true once all are done: there is nothing more to see. A signal ends it before. */
export async function watchArray(look: () => Promise<View>, everyMs: number, tools: Tools): Promise<boolean> {
  const { out, signal } = tools;
  for (;;) {
    const view = await lookAgain(look);
    if (view !== undefined) {
      if (out.isTerminal) await out.write(CLEAR);
      if (out.isTerminal) await writeTable(view, tools);
      else await out.write(`${new Date(view.nowMs).toISOString()} ${summaryOf(view, tools)}\n`);
      if (STATES.every((state) => state === 'done' || view.counts[state] === 0)) return true;
    }
    await sleep(everyMs, undefined, { signal });
  }
}
