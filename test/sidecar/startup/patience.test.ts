// One deadline for all that a start asks of its store. The clock is the test's; the store answers when the test says so.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openPatience, type Patience, startLimitMs } from '../../../src/sidecar/startup/patience.ts';
import { LONGEST_PAUSE_MS } from '../../../src/store/contract/driver.ts';
import { StoreError, type Store } from '../../../src/store/contract/store.ts';
import { memoryStore } from '../../support/memory-store.ts';

const LIMIT_MS = 60_000;
const AT_THE_RULE_BYTES = 6000;

let patience: Patience;
let ended: unknown;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  open();
});
afterEach(() => {
  patience.close();
  vi.useRealTimers();
});

function open(trouble?: StoreError): void {
  ended = undefined;
  const signal = new AbortController().signal;
  patience = openPatience({ limitMs: LIMIT_MS, signal, outage: { trouble } });
  patience.signal.addEventListener('abort', () => (ended = patience.signal.reason));
}

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const never = (): Promise<never> => new Promise(() => undefined);

/** An object whose body comes in pieces of so many bytes, each after so long, and breaks off after so many. */
function trickles(bytes: number, everyMs: number, pieces = Infinity): Store {
  async function* body(): AsyncGenerator<Uint8Array> {
    for (let sent = 0; sent < pieces; sent += 1) {
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      yield new Uint8Array(bytes);
    }
    throw new StoreError('transient', 'the answer broke off');
  }
  const got = { key: 'k', tag: '1', sizeBytes: 1e10, meta: {}, modifiedMs: undefined };
  return { ...memoryStore(), get: async () => ({ ...got, body: body() }) };
}

/** As a restore does: what broke off is asked for again. */
async function read(store: Store): Promise<void> {
  while (!patience.signal.aborted) {
    try {
      for await (const chunk of (await store.get('k'))?.body ?? []) expect(chunk.length).toBeGreaterThan(0);
    } catch (error) {
      expect(error).toMatchObject({ kind: 'transient' });
    }
  }
}

describe('a start', () => {
  it('waits for an answer as long as a drain, but at most a minute', () => {
    expect(startLimitMs({ drainTimeoutMs: 3_600_000 })).toBe(60_000);
    expect(startLimitMs({ drainTimeoutMs: 5000 })).toBe(5000);
    expect(startLimitMs({ drainTimeoutMs: 0 })).toBe(1000);
  });

  it('ends after that, whatever the request and however often it is retried, and says why', async () => {
    open(new StoreError('transient', 'HeadObject s3://b/k: no answer', { hint: 'look at it' }));
    const store = patience.over({ ...memoryStore(), head: never });
    void store.head('a');
    await pass(LIMIT_MS / 2);
    void store.head('b');
    await pass(LIMIT_MS / 2 - 1);
    expect(ended).toBeUndefined();
    await pass(1);
    expect(ended).toMatchObject({
      name: 'StoreError',
      message: 'HeadObject s3://b/k: no answer; waited for it for 1 min 0 s',
      hint: 'look at it',
    });
  });

  it('continues as long as answers come', async () => {
    const slow = {
      ...memoryStore(),
      head: () => new Promise<undefined>((r) => setTimeout(() => r(undefined), LIMIT_MS - 1)),
    };
    const store = patience.over(slow);
    for (let n = 0; n < 5; n += 1) {
      const asked = store.head('a');
      await pass(LIMIT_MS - 1);
      await asked;
    }
    expect(ended).toBeUndefined();
  });

  it('continues while the store answers that it is busy, and lets the driver pause', async () => {
    const store = patience.over({ ...memoryStore(), head: never });
    void store.head('a');
    for (let n = 0; n < 5; n += 1) {
      patience.tried('read', new StoreError('busy', 'the server is busy'));
      await pass(LIMIT_MS + LONGEST_PAUSE_MS - 1);
    }
    expect(ended).toBeUndefined();
    patience.tried('read', new StoreError('transient', 'no answer'));
    await pass(1);
    expect(ended).toMatchObject({ name: 'StoreError' });
  });

  it.each([
    ['', Infinity],
    [', breaks off, and is asked for again', 20],
  ])('ends when an object arrives a byte a second%s', async (_, pieces) => {
    const reading = read(patience.over(trickles(1, 1000, pieces)));
    await pass(LIMIT_MS - 1);
    expect(ended).toBeUndefined();
    await pass(1);
    expect(ended).toMatchObject({ name: 'StoreError', kind: 'transient' });
    if (pieces < Infinity) await Promise.all([reading, pass(LIMIT_MS)]);
  });

  it('continues for a day over a link that is slow but works', async () => {
    const store = patience.over(trickles(AT_THE_RULE_BYTES / 10, 5000));
    void read(store);
    await pass(24 * 3_600_000);
    expect(ended).toBeUndefined();
  });

  it('does not count the time without a request', async () => {
    const store = patience.over({ ...memoryStore(), folders: never });
    await store.head('a');
    await pass(10 * LIMIT_MS);
    void store.folders('');
    await pass(LIMIT_MS - 1);
    expect(ended).toBeUndefined();
  });

  it('has no limit once it is over, nor if a task runs already', async () => {
    const store = patience.over({ ...memoryStore(), head: never });
    void store.head('a');
    patience.close();
    const { signal } = new AbortController();
    const replaced = openPatience({ limitMs: undefined, signal, outage: {} });
    void replaced.over({ ...memoryStore(), head: never }).head('a');
    await pass(10 * LIMIT_MS);
    expect(ended).toBeUndefined();
    expect(replaced.signal.aborted).toBe(false);
  });

  it('restores the store’s own limits when it is over', () => {
    const own = memoryStore();
    const store = patience.over(own);
    expect(store.put).not.toBe(own.put);
    patience.close();
    expect(store).toEqual(own);
  });
});
