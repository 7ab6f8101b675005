import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Bandwidth, atLimitedRate } from '../../src/upload/bandwidth.ts';

const MB = 1e6;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Takes so much each time, all at once; says how many have been let go. */
function takes(bandwidth: Bandwidth, count: number, bytes: number): () => number {
  let gone = 0;
  for (let n = 0; n < count; n += 1) void bandwidth.waitFor(bytes).then(() => (gone += 1));
  return () => gone;
}

describe('a limit of 1 MB/s', () => {
  it('lets the first go at once, and each other when those before it would have left', async () => {
    const gone = takes(new Bandwidth(MB), 10, MB / 2);
    await vi.advanceTimersByTimeAsync(0);
    expect(gone()).toBe(1);
    await vi.advanceTimersByTimeAsync(999);
    expect(gone()).toBe(2);
    await vi.advanceTimersByTimeAsync(2001);
    expect(gone()).toBe(7);
  });

  it('owes nobody what was not sent while nothing came', async () => {
    const bandwidth = new Bandwidth(MB);
    await vi.advanceTimersByTimeAsync(60_000);
    const gone = takes(bandwidth, 3, MB);
    await vi.advanceTimersByTimeAsync(1500);
    expect(gone()).toBe(2);
  });

  it('holds each part of a body', async () => {
    const parts = (async function* () {
      for (let n = 0; n < 3; n += 1) yield Buffer.alloc(MB);
    })();
    const body = await atLimitedRate(new Bandwidth(MB), parts);
    let seen = 0;
    const reading = (async () => {
      for await (const part of body as AsyncIterable<Uint8Array>) seen += part.length;
    })();
    await vi.advanceTimersByTimeAsync(1500);
    expect(seen).toBe(2 * MB);
    await vi.advanceTimersByTimeAsync(500);
    await reading;
    expect(seen).toBe(3 * MB);
  });

  it('lets everything go when it is lifted, and holds again when that is taken back', async () => {
    const bandwidth = new Bandwidth(MB);
    const gone = takes(bandwidth, 5, MB);
    await vi.advanceTimersByTimeAsync(0);
    expect(bandwidth.bytesPerS).toBe(MB);
    expect([bandwidth.lift(), bandwidth.lift()]).toEqual([true, false]);
    expect(bandwidth.bytesPerS).toBeUndefined();
    await vi.advanceTimersByTimeAsync(0);
    expect(gone()).toBe(5);
    bandwidth.restore();
    const again = takes(bandwidth, 2, MB);
    await vi.advanceTimersByTimeAsync(0);
    expect(again()).toBe(1);
  });

  it('is waited for no longer than the signal says', async () => {
    const bandwidth = new Bandwidth(MB);
    const abort = new AbortController();
    void bandwidth.waitFor(MB);
    const second = bandwidth.waitFor(MB, abort.signal);
    abort.abort(new Error('given up'));
    await expect(second).rejects.toThrow('given up');
    expect(vi.getTimerCount()).toBe(0);
    // Nor is what was given up: the next one goes when the first has left.
    const third = takes(bandwidth, 1, MB);
    await vi.advanceTimersByTimeAsync(1000);
    expect(third()).toBe(1);
  });

  it('of several tasks is one link: what one sends, the other waits for', async () => {
    const link = { freeMs: 0 };
    const [a, b] = [new Bandwidth(MB, link), new Bandwidth(MB, link)];
    const first = takes(a, 1, MB);
    const second = takes(b, 1, MB);
    await vi.advanceTimersByTimeAsync(500);
    expect([first(), second()]).toEqual([1, 0]);
    await vi.advanceTimersByTimeAsync(500);
    expect(second()).toBe(1);
  });

  it('is lifted for one of them alone, which leaves its place to the others', async () => {
    const link = { freeMs: 0 };
    const [a, b] = [new Bandwidth(MB, link), new Bandwidth(MB, link)];
    const ofA = takes(a, 3, MB);
    await vi.advanceTimersByTimeAsync(0);
    a.lift();
    await vi.advanceTimersByTimeAsync(0);
    expect(ofA()).toBe(3);
    expect(b.bytesPerS).toBe(MB);
    const ofB = takes(b, 1, MB);
    await vi.advanceTimersByTimeAsync(999);
    expect(ofB()).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(ofB()).toBe(1);
  });
});
