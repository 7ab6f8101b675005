import { describe, expect, it } from 'vitest';
import { Priority, Ready } from '../../../src/sidecar/queue/turns.ts';

/** Serves the first so many. */
function serve(ready: Ready<number>, most: number): readonly number[] {
  const served: number[] = [];
  for (const key of ready) {
    if (served.length === most) break;
    ready.delete(key);
    served.push(key);
  }
  return served;
}

describe('what is ready', () => {
  it('is served in the order of arrival, each once', () => {
    const ready = new Ready<number>();
    for (const key of [5, 3, 5, 9000]) ready.add(key);
    expect(serve(ready, 2)).toEqual([5, 3]);
    ready.add(3);
    ready.add(5);
    expect(serve(ready, 9)).toEqual([9000, 3, 5]);
    expect([...ready]).toEqual([]);
  });

  it('stays in order while many thousands come and go', () => {
    const ready = new Ready<number>();
    const served: number[] = [];
    for (let key = 0; key < 30_000; key += 1) {
      ready.add(key);
      if (key % 3 === 2) served.push(...serve(ready, 2));
    }
    served.push(...serve(ready, 30_000));
    expect(served).toEqual(Array.from({ length: 30_000 }, (_, key) => key));
  });

  it('is ordered by rank from then on, and equal ranks by arrival', () => {
    const ready = new Ready<number>();
    for (const key of [4, 7, 2]) ready.add(key);
    expect(serve(ready, 1)).toEqual([4]);
    ready.rank(
      (key) => key % 2,
      (a, b) => a - b,
    );
    ready.add(1);
    ready.add(4);
    expect(serve(ready, 9)).toEqual([2, 4, 7, 1]);
    expect([...ready]).toEqual([]);
  });
});

it('the end of the run gives up each push, also those that begin later, and says why', () => {
  const run = new AbortController();
  const priority = new Priority(
    () => 1,
    () => 0,
    run.signal,
  );
  const before = priority.began(1, 'result', 1, false);
  const ended = priority.began(2, 'result', 1, false);
  priority.ended(2, true);
  run.abort('taken over');
  const after = priority.began(3, 'result', 1, false);
  expect([before, ended, after].map(({ signal }) => signal.reason)).toEqual([
    'taken over',
    undefined,
    'taken over',
  ]);
});
