// `capture status --watch`: `watchArray` of status.ts.
import { expect, it } from 'vitest';
import { watchArray } from '../../../src/array/status/status.ts';
import type { View } from '../../../src/array/status/view.ts';
import { StoreError, type StoreErrorKind } from '../../../src/store/contract/store.ts';

const viewOf = (counts: Partial<View['counts']>): View =>
  ({
    nowMs: 0,
    counts: { failed: 0, stale: 0, missing: 0, preempted: 0, ended: 0, running: 0, done: 0, ...counts },
  }) as View;

/** Watches what these looks find, until all are done. */
async function watched(looks: readonly (() => View)[]): Promise<{ said: string[]; all: boolean }> {
  const [said, left]: [string[], (() => View)[]] = [[], [...looks]];
  const all = await watchArray(async () => (left.shift() ?? ((): View => viewOf({ done: 1 })))(), 1, {
    out: {
      isTerminal: false,
      write: async (text: string) => void said.push(text),
      paint: (_: string, text: string) => text,
    },
    signal: new AbortController().signal,
  } as never);
  return { said: said.map((line) => line.trim()), all };
}

const failing = (kind: StoreErrorKind) => (): View => {
  throw new StoreError(kind, 'list: no answer');
};

it.each([
  ['gives no answer', 'transient'],
  ['is busy', 'busy'],
  ['is a directory that is not mounted', 'lost'],
] as const)('goes on when the store %s for a while', async (_, kind) => {
  expect(await watched([() => viewOf({ running: 1 }), failing(kind)])).toEqual({
    said: ['1970-01-01T00:00:00.000Z 1 index: 1 running', '1970-01-01T00:00:00.000Z 1 index: 1 done'],
    all: true,
  });
});

it('ends when the store will not give one', async () => {
  await expect(watched([failing('denied')])).rejects.toThrow('no answer');
});
