// Companions between two checkpoints. The time is the test's; the store is a list of records.
import { TaskNews } from '../../../src/sidecar/run/task-news.ts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Companion, Generation } from '../../../src/model/format/records.ts';
import { CompanionClock } from '../../../src/sidecar/checkpoints/captures.ts';
import { Generations } from '../../../src/sidecar/checkpoints/generations.ts';

const EVERY_MS = 300_000;

let captures: (() => void)[];
let clock: CompanionClock;

beforeEach(() => {
  vi.useFakeTimers();
  captures = [];
  clock = new CompanionClock(() => new Promise((resolve) => captures.push(resolve)), EVERY_MS);
  clock.captured();
});
afterEach(() => {
  clock.close();
  vi.useRealTimers();
});

describe('companions without a checkpoint', () => {
  it('are captured five minutes after the last capture', async () => {
    await vi.advanceTimersByTimeAsync(EVERY_MS - 1);
    expect(captures).toHaveLength(0);
    clock.captured();
    await vi.advanceTimersByTimeAsync(EVERY_MS - 1);
    expect(captures).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(captures).toHaveLength(1);
  });

  it('are captured again five minutes after a capture has ended, however long it took', async () => {
    clock.now();
    await vi.advanceTimersByTimeAsync(3 * EVERY_MS);
    expect(captures).toHaveLength(1);
    captures[0]?.();
    await vi.advanceTimersByTimeAsync(EVERY_MS);
    expect(captures).toHaveLength(2);
  });

  it('are captured once when they are requested twice', () => {
    clock.now();
    clock.now();
    expect(captures).toHaveLength(1);
  });

  it('are no longer captured at the end', async () => {
    clock.close();
    clock.now();
    clock.captured();
    await vi.advanceTimersByTimeAsync(2 * EVERY_MS);
    expect(captures).toHaveLength(0);
  });
});

describe('companions of a task that writes no checkpoint', () => {
  type Options = ConstructorParameters<typeof Generations>[0];

  const MINUTE_MS = 60_000;

  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  function opened() {
    const records: (readonly Generation[])[] = [];
    const ledger = {
      generations: [] as readonly Generation[],
      takeovers: [],
      setGenerations: (generations: readonly Generation[]) => (ledger.generations = generations),
      write: async () => void records.push(ledger.generations),
    };
    const log = { path: 'log', size: 1, segments: [{ key: 'log.1', first: 0, size: 1 }] };
    const companions = {
      areDeclared: true,
      areDue: true,
      areWholeSet: true,
      current: [{ ...log, segments: [...log.segments] }] as unknown as readonly Companion[],
      capture: async () => ({ kind: 'captured', companions: companions.current, isWhole: true }),
      isCurrent: () => true,
      garbage: () => [],
      forget: () => undefined,
    };
    const none = {
      objects: [],
      currentOf: () => new Set(),
      forget: () => undefined,
      newestOf: () => undefined,
    };
    const context = {
      ledger,
      attempt: 1,
      lacking: [],
      settings: {
        generations: 2,
        verify: undefined,
        checkpointSettleMs: 2000,
        companionIntervalMs: 5 * MINUTE_MS,
        manifest: { checkpoints: [] },
      },
      manifest: { exact: { results: [], checkpoints: [], companions: [] }, matchIndex: () => -1 },
      log: { info: () => undefined, debug: () => undefined, warn: () => undefined },
      outage: { isKnown: false },
      signal: new AbortController().signal,
      tidy: { delete: async () => true },
      now: () => Date.now(),
      taskNews: new TaskNews(() => Date.now()),
    };
    const generations = new Generations({
      context,
      companions,
      checkpoints: { ...none, takeNumber: () => records.length + 1 },
      files: { fileStates: () => [], paths: () => [], get: () => undefined },
      drainEvents: () => undefined,
      behind: () => [],
      links: { lost: async () => [] },
      isLast: () => false,
      restored: [],
      onCommitted: () => undefined,
    } as unknown as Options);
    generations.begin();
    return {
      generations,
      records,
      grow: () => {
        log.segments.push({ key: `log.${log.segments.length + 1}`, first: log.size, size: 1 });
        companions.current = [{ ...log, segments: [...log.segments] }] as unknown as readonly Companion[];
      },
    };
  }

  it('companions without a checkpoint are recorded at intervals, if they have grown', async () => {
    const { generations, records, grow } = opened();
    await vi.advanceTimersByTimeAsync(5 * MINUTE_MS - 1);
    expect(records).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(records).toHaveLength(1);
    expect(records[0]?.[0]?.companions[0]?.path).toBe('log');
    await vi.advanceTimersByTimeAsync(10 * MINUTE_MS);
    expect(records).toHaveLength(1);
    grow();
    await vi.advanceTimersByTimeAsync(5 * MINUTE_MS);
    expect(records).toHaveLength(2);
    generations.pause();
    grow();
    await vi.advanceTimersByTimeAsync(10 * MINUTE_MS);
    expect(records).toHaveLength(2);
  });
});
