// What a flush waits for, of files: as decide() leaves them. Of sets: checkpoints/generations.test.ts.
import { describe, expect, it } from 'vitest';
import type { FileEvent } from '../../../src/model/file/decide.ts';
import type { Files } from '../../../src/sidecar/queue/files.ts';
import { filesThat, stored } from './pushes.ts';

const NEVER = new AbortController().signal;

interface Pushes {
  readonly files: Files;
  /** Paths whose pushes are under way, each with the function that ends its push. */
  readonly underWay: { path: string; end: (event: FileEvent) => void }[];
}

function open(): Pushes {
  const underWay: Pushes['underWay'] = [];
  const files = filesThat(({ path }) => new Promise((end) => underWay.push({ path, end })));
  return { files, underWay };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a need', () => {
  it('is met when the content of that moment is durable, whatever is closed later', async () => {
    const { files, underWay } = open();
    files.closed('a', 'close', 0);
    const need = files.needAll();
    files.closed('a', 'close', 1);
    underWay[0]?.end(stored);
    expect(await need.met(NEVER)).toBe(true);
    expect(need.unmet()).toEqual([]);
  });

  it('is not met by a push that began to read before the close', async () => {
    const { files, underWay } = open();
    files.closed('a', 'close', 0);
    files.closed('a', 'close', 1);
    const need = files.needAll();
    underWay[0]?.end(stored);
    await turn();
    expect(need.unmet().map(({ path }) => path)).toEqual(['a']);
    // Without the hour of pacing that the push before it has earned.
    expect(underWay).toHaveLength(2);
    underWay[1]?.end(stored);
    expect(await need.met(NEVER)).toBe(true);
  });

  it('hurries only the needed files, and only until it is closed', async () => {
    const { files, underWay } = open();
    files.closed('a', 'close', 0);
    underWay[0]?.end(stored);
    await turn();
    files.closed('a', 'close', 1);
    expect(underWay).toHaveLength(1);
    const need = files.needAll();
    expect(underWay).toHaveLength(2);
    need.close();
    underWay[1]?.end(stored);
    await turn();
    files.closed('a', 'close', 2);
    expect(underWay).toHaveLength(2);
  });

  it('retries at once what the store refused', async () => {
    const { files, underWay } = open();
    files.closed('a', 'close', 0);
    underWay[0]?.end({ kind: 'failed', why: 'it is down', atMs: 0 });
    await turn();
    expect(underWay).toHaveLength(1);
    const need = files.needAll();
    expect(underWay).toHaveLength(2);
    underWay[1]?.end({ kind: 'failed', why: 'it is down', atMs: 0 });
    await turn();
    expect(need.unmet().map(({ left }) => left)).toEqual(['it is down']);
    // And then as soon as after a first failure.
    expect(files.get('a', 'result')).toMatchObject({ failedTries: 1 });
  });

  it.each<[string, FileEvent, number]>([
    ['withdrawn', { kind: 'gone' }, 0],
    ['never to be stored', { kind: 'refused', why: 'a secret' }, 1],
  ])('does not wait for a file that is %s', async (_, event, unmet) => {
    const { files, underWay } = open();
    files.closed('a', 'close', 0);
    const need = files.needAll();
    underWay[0]?.end(event);
    expect(await need.met(NEVER)).toBe(true);
    expect(need.unmet()).toHaveLength(unmet);
  });

  it('ends when its signal aborts', async () => {
    const { files } = open();
    files.closed('a', 'close', 0);
    expect(await files.needAll().met(AbortSignal.abort())).toBe(false);
  });
});
