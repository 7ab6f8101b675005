// Attempts of one index that run at once, over a model of the store: every request waits its turn in an order
// that fast-check chooses, attempts crash at any of them, and the clock jumps.
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { generationName, unionOf } from '../../src/model/checkpoint/history.ts';
import {
  droppedGenerations,
  droppedKeys,
  keptGenerations,
  generationKeys,
} from '../../src/model/checkpoint/retention.ts';
import { type KeyScope, parseRecordKey } from '../../src/model/format/keys.ts';
import { type Generation, textWithSum } from '../../src/model/format/records.ts';
import { claimAttempt, Fence, FencedError, Tidy } from '../../src/records/claim.ts';
import { Ledger, runFields } from '../../src/records/ledger.ts';
import { listRecords } from '../../src/records/list.ts';
import { readDropped, readNewest } from '../../src/records/read.ts';
import { ABSENT, type ListedObject, type Store } from '../../src/store/contract/store.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const SCOPE: KeyScope = { taskName: 't', index: '0' };
/** How long an attempt may believe that nobody has taken its index over (records/claim.ts). */
const FRESH_MS = 5000;
/** `--generations` */
const KEPT = 2;
const NEVER = Number.MAX_SAFE_INTEGER;

/** What an attempt does after it has read: `checkpoint` commits a set, `stored` is a flush or a notice. */
type Step = 'checkpoint' | 'stored';

interface Plan {
  readonly steps: readonly Step[];
  /** It is killed before this request. */
  readonly diesAt: number;
}

class Killed extends Error {}

interface World {
  readonly disk: MemoryStore;
  nowMs: number;
  /** By attempt its last look at the fence: when the answer came, and whether it was taken over. */
  readonly looks: Map<number, { readonly answeredMs: number; readonly isTaken: boolean }>;
  /** By attempt the number of the newest set whose record was acknowledged. */
  readonly committed: Map<number, number>;
  /** The same at the moment at which an attempt was claimed. */
  readonly committedAtClaim: Map<number, ReadonlyMap<number, number>>;
  newestRecord: string;
  readonly broken: string[];
}

let world: World;
beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => world.nowMs);
});
afterEach(() => {
  vi.restoreAllMocks();
});

function newWorld(): World {
  return {
    disk: memoryStore(),
    nowMs: 0,
    looks: new Map(),
    committed: new Map(),
    committedAtClaim: new Map(),
    newestRecord: '',
    broken: [],
  };
}

/** The store as one machine sees it: each request and each answer takes its turn, and the machine may die. */
function seenBy(machine: { attempt: number; diesAt: number }, turn: () => Promise<void>): Store {
  let requests = 0;
  const request = async <T>(act: () => Promise<T>): Promise<T> => {
    requests += 1;
    if (requests >= machine.diesAt) throw new Killed();
    await turn();
    const answer = await act();
    watchNewest();
    await turn();
    return answer;
  };
  const { disk } = world;
  return {
    ...disk,
    put: (key, body, options) => {
      const at = parseRecordKey(key);
      if (at?.attempt === machine.attempt && at.seq > 0) watchLateWrite(key, at.attempt);
      return request(async () => {
        const outcome = await disk.put(key, body, options);
        if (outcome.kind === 'stored' && at?.seq === 0) {
          world.committedAtClaim.set(at.attempt, new Map(world.committed));
        }
        return outcome;
      });
    },
    get: async (key, options) => {
      const found = await request(() => disk.get(key, options));
      const at = parseRecordKey(key);
      if (at?.attempt === machine.attempt + 1 && at.seq === 0)
        world.looks.set(machine.attempt, { answeredMs: world.nowMs, isTaken: found !== undefined });
      return found;
    },
    head: (key, signal) => request(() => disk.head(key, signal)),
    list: async function* list(prefix, signal) {
      const listed = await request(async () => {
        const there: ListedObject[] = [];
        for await (const one of disk.list(prefix, signal)) there.push(one);
        return there;
      });
      const isTaken = listed.some(({ key }) => (parseRecordKey(key)?.attempt ?? 0) > machine.attempt);
      if (machine.attempt > 0) world.looks.set(machine.attempt, { answeredMs: world.nowMs, isTaken });
      yield* listed;
    },
    delete: (keys, signal) => {
      for (const key of keys.filter(isRecord)) {
        if (parseRecordKey(key)?.attempt !== machine.attempt)
          world.broken.push(`deletes the record ${key} of another`);
      }
      watchLateWrite(`the deletion of ${keys.join(', ')}`, machine.attempt);
      return request(() => disk.delete(keys, signal));
    },
  };
}

function watchNewest(): void {
  const newest = [...world.disk.objects.keys()].filter(isRecord).toSorted().at(-1) ?? '';
  if (newest < world.newestRecord) world.broken.push(`the newest record went back to ${newest}`);
  world.newestRecord = newest;
}

/** A set of each attempt at least as new as the one that stood when this attempt was claimed. */
function watchFound(attempt: number, found: readonly Generation[]): void {
  for (const [earlier, committed] of world.committedAtClaim.get(attempt) ?? []) {
    const isThere = found.some(
      (one) => one.attempt > earlier || (one.attempt === earlier && one.generation >= committed),
    );
    if (!isThere) world.broken.push(`attempt ${attempt} does not find set ${earlier}-${committed}`);
  }
}

/**
 * What an attempt may still do when it is taken over: what it begins within 5 s after the last answer that said
 * that it was not. That is all that remains of the race.
 */
function watchLateWrite(what: string, attempt: number): void {
  const look = world.looks.get(attempt);
  if (look === undefined) world.broken.push(`attempt ${attempt} begins ${what} without a look at the fence`);
  else if (look.isTaken) world.broken.push(`attempt ${attempt} begins ${what} though it was taken over`);
  else if (world.nowMs > look.answeredMs + FRESH_MS)
    world.broken.push(
      `attempt ${attempt} begins ${what} ${world.nowMs - look.answeredMs} ms after its last look`,
    );
}

const isRecord = (key: string): boolean => parseRecordKey(key) !== undefined;

/** One attempt from its claim to its last record; resolves to its number, whatever ends it. */
async function run({ steps, diesAt }: Plan, turn: () => Promise<void>): Promise<number | undefined> {
  const machine = { attempt: 0, diesAt };
  const store = seenBy(machine, turn);
  try {
    const runToken = newToken();
    const bodyOf = (attempt: number): ReturnType<typeof claimOf> => claimOf(attempt, runToken);
    const listing = await listRecords(store, SCOPE);
    machine.attempt = await claimAttempt({ store, scope: SCOPE, listing, unfenced: false, bodyOf });
    const { ledger, tidy } = await open(store, machine.attempt, runToken);
    for (const [n, step] of steps.entries()) {
      if (step === 'stored') await ledger.write('stored');
      else await commit(store, ledger, tidy, { attempt: machine.attempt, generation: n + 1 });
    }
    await ledger.write('done');
  } catch (error) {
    if (!(error instanceof Killed) && !(error instanceof FencedError)) throw error;
  }
  return machine.attempt === 0 ? undefined : machine.attempt;
}

let tokens = 0;
function newToken(): string {
  tokens += 1;
  return `run ${tokens}`;
}

function claimOf(attempt: number, runToken: string): { readonly text: string; readonly push: string } {
  const facts = { scope: SCOPE, attempt, runId: undefined, runToken, host: 'host', argv: [], scheduler: {} };
  const at = new Date(0).toISOString();
  const push = `claim ${attempt} ${runToken}`;
  const record = { ...runFields({ ...facts, startedAt: at }), kind: 'started', seq: 0, at, push };
  return { text: textWithSum(record), push };
}

/** As sidecar/startup/attempt.ts does: what the listing shows, the fence need not ask. */
async function open(
  store: Store,
  attempt: number,
  runToken: string,
): Promise<{ readonly ledger: Ledger; readonly tidy: Tidy }> {
  const askedMs = performance.now();
  const listing = await listRecords(store, SCOPE);
  const fence = new Fence(
    store,
    { scope: SCOPE, attempt, runToken },
    { onFenced: () => undefined, ...(listing.newestAttempt === attempt ? { knownMs: askedMs } : {}) },
  );
  const tidy = new Tidy(store, fence, () => undefined);
  const { records } = await readNewest(store, listing, { before: attempt });
  const history = unionOf(records, undefined);
  watchFound(attempt, history.generations);
  const ledger = new Ledger(
    {
      store,
      fence,
      facts: {
        scope: SCOPE,
        attempt,
        runId: undefined,
        runToken: 'token',
        host: 'host',
        argv: [],
        scheduler: {},
        startedAt: new Date(0).toISOString(),
      },
      history,
      base: records.at(-1),
      takeovers: [],
      newId: () => `${attempt}`,
      now: () => new Date(0),
      tidy,
    },
    1,
  );
  await ledger.write('started');
  return { ledger, tidy };
}

/** As sidecar/checkpoints/generation-record.ts does: the objects, the one record that names them, then what no kept one needs goes. */
async function commit(
  store: Store,
  ledger: Ledger,
  tidy: Tidy,
  name: { readonly attempt: number; readonly generation: number },
): Promise<void> {
  const key = `k.chk.t.0.${generationName(name)}`;
  await store.put(key, Buffer.from(key), { meta: { push: key }, precondition: ABSENT });
  const before = ledger.generations;
  const kept = keptGenerations([generationOf(name, key), ...before], KEPT, () => true);
  ledger.setGenerations(kept);
  await ledger.write('checkpoint');
  world.committed.set(name.attempt, name.generation);
  await tidy.delete(droppedKeys(droppedGenerations(before, kept), kept));
}

function generationOf(name: { attempt: number; generation: number }, key: string): Generation {
  const member = {
    path: 'k.chk',
    kind: 'file' as const,
    key,
    push: key,
    attempt: name.attempt,
    md5: '0'.repeat(32),
    size: key.length,
    compressed: false,
    mtimeNs: '0',
    mode: 0o644,
  };
  return { ...name, at: new Date(0).toISOString(), members: [member], companions: [] };
}

const plan: fc.Arbitrary<Plan> = fc.record({
  steps: fc.array(fc.constantFrom<Step>('checkpoint', 'checkpoint', 'stored'), { maxLength: 5 }),
  diesAt: fc.oneof(fc.constant(NEVER), fc.integer({ min: 1, max: 40 })),
});

/** The generations that a restore would try, by what is in the store now. */
async function restorable(): Promise<readonly Generation[]> {
  const { disk } = world;
  const { records } = await readNewest(disk, await listRecords(disk, SCOPE));
  return unionOf(records, undefined).generations;
}

/** Objects of committed sets that are there, and that a run that is done would not find again. */
async function forgotten(): Promise<readonly string[]> {
  const { disk, committed } = world;
  const listing = await listRecords(disk, SCOPE);
  const dropped = await readDropped(disk, listing);
  const told = new Set([...(await restorable()), ...dropped].flatMap(generationKeys));
  const recorded = [...committed].flatMap(([attempt, newest]) =>
    Array.from({ length: newest }, (_, n) => `k.chk.t.0.${generationName({ attempt, generation: n + 1 })}`),
  );
  return recorded.filter((key) => disk.objects.has(key) && !told.has(key));
}

const isWhole = ({ members }: Generation): boolean => members.every(({ key }) => world.disk.objects.has(key));

describe('attempts that come one after the other, each killed anywhere', () => {
  it('always find the newest committed sets whole', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(plan, { minLength: 1, maxLength: 4 }), async (plans) => {
        world = newWorld();
        for (const one of plans) {
          await run(one, () => Promise.resolve());
          const found = await restorable();
          // The last records of earlier attempts go on naming sets that later ones have dropped.
          expect(found.slice(0, KEPT).every(isWhole)).toBe(true);
          expect(
            await forgotten(),
            'objects that were recorded and that no record tells of any more',
          ).toEqual([]);
          const newest = [...world.committed].at(-1);
          if (newest === undefined) continue;
          const [attempt, generation] = newest;
          // Records that were written and not acknowledged may name newer ones instead, never fewer.
          const newer = found.filter(
            (one) => one.attempt > attempt || (one.attempt === attempt && one.generation > generation),
          );
          if (newer.length < KEPT)
            expect(found.map(generationName)).toContain(generationName({ attempt, generation }));
        }
        expect(world.broken).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});

describe('attempts that run at once', () => {
  const together = fc.tuple(
    fc.array(plan, { minLength: 2, maxLength: 3 }),
    fc.infiniteStream(fc.constantFrom(0, 0, 1, 900, 6000)),
    fc.scheduler(),
  );

  it('have one owner for each number, write nothing late, and lose no set that was committed before the claim', async () => {
    await fc.assert(
      fc.asyncProperty(together, async ([plans, jumps, scheduler]) => {
        world = newWorld();
        const turn = async (): Promise<void> => {
          await scheduler.schedule(Promise.resolve());
          world.nowMs += jumps.next().value ?? 0;
        };
        const running = Promise.all(plans.map((one) => run(one, turn)));
        const owners = await scheduler.waitFor(running);
        const numbers = owners.filter((owner) => owner !== undefined);
        expect(new Set(numbers).size).toBe(numbers.length);
        expect(world.broken).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });
});
