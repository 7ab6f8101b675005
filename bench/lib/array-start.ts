// A model of a whole array that starts, or is ended, in one second: each task asks what a start or an end asks, through
// the driver's own retries (src/store/contract/driver.ts), of a server that takes only so many requests. Time is
// simulated: an hour of it takes seconds, and one seed always gives one result.
import { setImmediate as allIdle } from 'node:timers/promises';
import { type RetryClock, retrying } from '../../src/store/contract/driver.ts';
import { BUDGET_MS, StoreError } from '../../src/store/contract/store.ts';

/** What a first start asks, in turn: test/e2e/requests.test.ts counts the same of a real one. */
export const FIRST_START = {
  aws: ['ListObjectsV2', 'PutObject', 'ListObjectsV2', 'PutObject', 'ListObjectsV2'],
  /** Does the server honour create-only puts, and whose claim stands? */
  other: [
    'ListObjectsV2',
    'PutObject',
    'PutObject',
    'GetObject',
    'ListObjectsV2',
    'PutObject',
    'ListObjectsV2',
  ],
} as const satisfies Readonly<Record<string, readonly Operation[]>>;

/** What is asked at the end: is this attempt still the newest? A last result, and the last record. */
export const END = [
  'PutObject',
  'GetObject',
  'GetObject',
  'PutObject',
] as const satisfies readonly Operation[];

type Operation = 'ListObjectsV2' | 'PutObject' | 'GetObject';

export interface Limits {
  readonly readsPerS: number;
  readonly writesPerS: number;
  /** So many requests wait in the server; without it each one that comes too early is refused. */
  readonly mostAtOnce?: number;
}

/**
 * S3 gives a prefix 3,500 writes and 5,500 reads a second, and answers 503 SlowDown to the rest
 * (https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html).
 */
export const S3_LIMITS: Limits = { readsPerS: 5500, writesPerS: 3500 };

/** A Ceph RGW lets requests wait, 1,024 at most (`rgw_max_concurrent_requests`), and refuses the others in the same words. */
export function rgwLimits(perS: number): Limits {
  return { readsPerS: perS, writesPerS: perS, mostAtOnce: 1024 };
}

export interface ArrayStart {
  readonly tasks: number;
  readonly requests: readonly Operation[];
  readonly limits: Limits;
  /** Without it each pause has its full length. */
  readonly jitter: boolean;
}

export interface ArrayStarted {
  readonly started: number;
  readonly gaveUp: number;
  /** When a share of the tasks had started, in s; undefined if so many never did. */
  readonly p50S: number | undefined;
  readonly p99S: number | undefined;
  readonly allS: number | undefined;
  /** How long the server needs for one try of each request, s. */
  readonly leastS: number;
  /** Tries of all requests. */
  readonly sent: number;
  readonly repeated: number;
  /** The most tries in one second. */
  readonly peakPerS: number;
  /** Seconds in which a tenth of the tasks more came than in the second before: they come back together. */
  readonly waves: number;
}

/** All tasks begin within this time. */
const SPREAD_MS = 1000;

export async function startArray({ tasks, requests, limits, jitter }: ArrayStart): Promise<ArrayStarted> {
  const clock = new VirtualClock();
  const server = new Server(clock, limits);
  const luck = jitter ? clock.luck : () => 1;
  const own: RetryClock = { now: clock.now, pause: clock.pause, luck };
  const startedMs: number[] = [];
  let gaveUp = 0;
  const startOne = async (): Promise<void> => {
    await clock.pause(clock.luck() * SPREAD_MS);
    try {
      for (const operation of requests)
        await retrying(() => server.ask(operation), { budgetMs: BUDGET_MS }, own);
      startedMs.push(clock.now());
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      gaveUp += 1;
    }
  };
  const all = Promise.all(Array.from({ length: tasks }, startOne));
  await clock.run();
  await all;
  const { perSecond, refused } = server;
  const secondsOf = (share: number): number | undefined => {
    const ms = startedMs[Math.ceil(share * tasks) - 1];
    return ms === undefined ? undefined : ms / 1000;
  };
  return {
    started: startedMs.length,
    gaveUp,
    p50S: secondsOf(0.5),
    p99S: secondsOf(0.99),
    allS: secondsOf(1),
    leastS: leastS(tasks, requests, limits),
    sent: perSecond.reduce((sum, tries) => sum + tries, 0),
    repeated: refused,
    peakPerS: Math.max(...perSecond),
    waves: perSecond.filter((tries, at) => at > 0 && tries - (perSecond[at - 1] ?? 0) >= tasks / 10).length,
  };
}

function leastS(tasks: number, requests: readonly Operation[], limits: Limits): number {
  const { readsPerS, writesPerS, mostAtOnce } = limits;
  const writes = requests.filter((operation) => operation === 'PutObject').length;
  const [forReadsS, forWritesS] = [(requests.length - writes) / readsPerS, writes / writesPerS];
  return tasks * (mostAtOnce === undefined ? Math.max(forReadsS, forWritesS) : forReadsS + forWritesS);
}

/** Time in whole ms, which goes on when nobody has anything left to do at this one. */
class VirtualClock {
  #nowMs = 0;
  #waiting = 0;
  #seed = 1;
  readonly #due = new Map<number, (() => void)[]>();

  readonly now = (): number => this.#nowMs;

  readonly pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const atMs = this.#nowMs + Math.max(1, Math.round(ms));
      const due = this.#due.get(atMs);
      if (due === undefined) this.#due.set(atMs, [resolve]);
      else due.push(resolve);
      this.#waiting += 1;
    });

  /** The generator of Numerical Recipes: always the same numbers. */
  readonly luck = (): number => {
    this.#seed = (Math.imul(this.#seed, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#seed / 2 ** 32;
  };

  /** Until nobody waits any more. */
  async run(): Promise<void> {
    while (this.#waiting > 0) {
      this.#nowMs += 1;
      const due = this.#due.get(this.#nowMs);
      if (due === undefined) continue;
      this.#due.delete(this.#nowMs);
      this.#waiting -= due.length;
      for (const wake of due) wake();
      await allIdle();
    }
  }
}

/** What the server takes for an answer where nothing waits, and the network there and back, ms. */
const ANSWER_MS = 30;
const NETWORK_MS = 20;
/** What was not used is good for so long, ms. */
const SAVED_MS = 100;

/** One for all: to make an error takes longer than all else here. */
const BUSY = new StoreError('busy', 'the server is busy');

class Server {
  readonly #clock: VirtualClock;
  readonly #limits: Limits;
  /** When the next request of each kind can be served, at its rate. */
  readonly #freeMs = { reads: 0, writes: 0 };
  #atOnce = 0;
  refused = 0;
  readonly perSecond: number[] = [];

  constructor(clock: VirtualClock, limits: Limits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Throws {@link BUSY} if it is refused. */
  async ask(operation: Operation): Promise<void> {
    const nowMs = this.#clock.now();
    const second = Math.floor(nowMs / 1000);
    while (this.perSecond.length <= second) this.perSecond.push(0);
    this.perSecond[second] = (this.perSecond[second] ?? 0) + 1;
    const waitMs = this.#waitFor(operation, nowMs);
    if (waitMs === undefined) {
      this.refused += 1;
      await this.#clock.pause(NETWORK_MS);
      throw BUSY;
    }
    this.#atOnce += 1;
    await this.#clock.pause(waitMs + ANSWER_MS);
    this.#atOnce -= 1;
    await this.#clock.pause(NETWORK_MS);
  }

  /** How long it waits for its turn; undefined if it is refused. */
  #waitFor(operation: Operation, nowMs: number): number | undefined {
    const { readsPerS, writesPerS, mostAtOnce } = this.#limits;
    const isWrite = operation === 'PutObject';
    const everyMs = 1000 / (isWrite ? writesPerS : readsPerS);
    // With a queue there is one for all.
    const kind = isWrite && mostAtOnce === undefined ? 'writes' : 'reads';
    const freeMs = Math.max(this.#freeMs[kind], nowMs - SAVED_MS);
    const isFull = mostAtOnce === undefined ? freeMs > nowMs : this.#atOnce >= mostAtOnce;
    if (isFull) return undefined;
    this.#freeMs[kind] = freeMs + everyMs;
    return Math.max(0, freeMs - nowMs);
  }
}
