// The points at which attempts die, in chains that a seed puts together.
import type { Failpoint } from '../../../src/native/failpoint.ts';
import type { Link } from './chain.ts';
import type { Death } from './run.ts';

export type StoreKind = 'file' | 'encrypted' | 's3' | 'gs' | 'azure' | 'sftp';

interface Where {
  /** How often one run comes there, at least: the first so many are killed at. */
  readonly times: number;
  /** The only kind of store where it is reached. */
  readonly only?: StoreKind;
}

const EVERY: Where = { times: 3 };
const TWICE: Where = { times: 2 };
const ONCE: Where = { times: 1 };

/** Every failpoint. `parts` need results of several parts, which cost time: they have chains of their own. */
const POINTS: Readonly<Record<Failpoint, Where>> = {
  'attempt-file.before-rename': ONCE,
  'attempt-file.written': ONCE,
  'claim.before-put': ONCE,
  'claim.after-put': ONCE,
  'claim.won': ONCE,
  'record.before-put': EVERY,
  'record.after-put': EVERY,
  'delete.before': TWICE,
  'delete.after': TWICE,
  'push.before-read': { times: 6 },
  'push.before-put': { times: 6 },
  'push.after-put': { times: 6 },
  'push.noted': EVERY,
  'stage.noted': ONCE,
  'promote.before': ONCE,
  'promote.after': ONCE,
  'keep.before-copy': TWICE,
  'keep.after-copy': TWICE,
  'file-put.key-noted': { times: 5, only: 'file' },
  'file-put.body-written': { times: 5, only: 'file' },
  'file-put.meta-written': { times: 5, only: 'file' },
  'file-put.placed': { times: 5, only: 'file' },
  'file-put.synced': { times: 5, only: 'file' },
  'file-delete.unlinked': { times: 2, only: 'file' },
  's3.before-put': { times: 6, only: 's3' },
  's3.after-put': { times: 6, only: 's3' },
  's3.before-part': { times: 2, only: 's3' },
  's3.after-part': { times: 2, only: 's3' },
  's3.before-complete': { times: 1, only: 's3' },
  's3.after-complete': { times: 1, only: 's3' },
  'commit.before-record': TWICE,
  'commit.after-record': TWICE,
  'reclaim.before-set-aside': EVERY,
  'reclaim.set-aside': EVERY,
  'reclaim.before-unlink': EVERY,
  'reclaim.after-unlink': EVERY,
  'recover.before-file': ONCE,
  'recover.after-file': ONCE,
  'restore.before-fetch': TWICE,
  'restore.staged': TWICE,
  'restore.fetched': TWICE,
  'restore.before-place': EVERY,
  'restore.placed': EVERY,
  'finish.scanned': ONCE,
  'finish.drained': ONCE,
  'finish.before-record': ONCE,
  'finish.after-record': ONCE,
  'finish.reclaimed': ONCE,
};

/** Where a sidecar that replaces a dead one comes, too: whatever the first one has left to do. */
const REPLACED: readonly Failpoint[] = [
  'record.before-put',
  'record.after-put',
  'push.before-read',
  'push.before-put',
  'push.after-put',
  'reclaim.before-set-aside',
  'reclaim.set-aside',
  'finish.scanned',
  'finish.drained',
  'finish.before-record',
  'finish.after-record',
  'finish.reclaimed',
];

/** Only a running task's sidecar is replaced; before the task starts its death ends the run. */
const BEFORE_THE_TASK = /^(attempt-file|claim|recover|restore)\./;

/** With a long one records and deletions come while the task runs, with a short one all comes at its end. */
const PAUSES_MS = [0, 60, 250];
const LONG_PAUSE_MS = 250;
const IN_RECLAIM = /^(reclaim|recover)\./;

/** Longer chains end less often with two runs that nothing kills; shorter ones say more when one fails. */
const LINKS_IN_CHAIN = 12;

export const FAILPOINTS = Object.keys(POINTS) as readonly Failpoint[];

export interface ChainPlan {
  readonly links: readonly Link[];
  readonly big: boolean;
}

/**
 * All points of one kind of store: each by the sidecar's death, and by all, on the same and another machine. On a file
 * store, what is the same on S3 is died at in one of these ways in each run.
 */
export function everyPoint(store: StoreKind, random: () => number): readonly ChainPlan[] {
  const isPart = (at: Failpoint): boolean => /^s3\..*(part|complete)$/.test(at);
  const groups = (parts: boolean): readonly Group[] =>
    FAILPOINTS.filter((at) => (POINTS[at].only ?? store) === store && isPart(at) === parts).flatMap((at) =>
      Array.from({ length: POINTS[at].times }, (_, n) => {
        const ways = linksAt(at, n + 1, random);
        // What a later time adds is that something is there already: one way in each run is enough.
        const hasAll = n === 0 && (store === 's3' || POINTS[at].only === 'file');
        return hasAll ? ways : [pick(ways, random)];
      }).flat(),
    );
  // The slow ones first: at the end all workers have something to do.
  return [
    ...inChains(shuffled(groups(true), random), true),
    ...inChains(shuffled(groups(false), random), false),
  ];
}

/** Links that belong together: a later one finds what the one before it has left. */
type Group = readonly Link[];

function linksAt(at: Failpoint, nth: number, random: () => number): readonly Group[] {
  const death = (victim: 'sidecar' | 'all'): Death => ({ kind: 'failpoint', at, nth, victim });
  const another = (): Death => ({
    kind: 'failpoint',
    at: pick(REPLACED, random),
    nth: 1,
    victim: 'sidecar',
  });
  const link = (fresh: boolean, ...deaths: readonly Death[]): Link => ({
    deaths,
    pauseMs: IN_RECLAIM.test(at) ? LONG_PAUSE_MS : pick(PAUSES_MS, random),
    fresh,
  });
  // Only a death in the middle of a reclaim leaves something for the next start to recover.
  const setAside: Death = { kind: 'failpoint', at: 'reclaim.set-aside', nth: 1, victim: 'all' };
  const before = at.startsWith('recover.') ? [link(false, setAside)] : [];
  const isEarly = BEFORE_THE_TASK.test(at);
  const last = isEarly || nth > 1 ? [death('all')] : [another(), death('all')];
  return [
    [...before, link(false, death('sidecar'), ...(isEarly ? [] : [another(), another()]))],
    [...before, link(true, death('all'))],
    [...before, link(false, ...last)],
  ];
}

function inChains(groups: readonly Group[], big: boolean): readonly ChainPlan[] {
  const chains: Group[][] = [[]];
  for (const group of groups) {
    const last = chains.at(-1) ?? [];
    if (last.length + 1 > LINKS_IN_CHAIN / (big ? 2 : 1)) chains.push([group]);
    else last.push(group);
  }
  return chains.filter((links) => links.length > 0).map((links) => ({ links: inOrder(links), big }));
}

/**
 * An attempt that was killed and may come back keeps later ones from deleting anything while their task runs. So
 * deaths of sidecars alone come first, and of the others those in the middle of a deletion.
 */
function inOrder(groups: readonly Group[]): readonly Link[] {
  const rank = ([first]: Group): number => {
    const last = first?.deaths.at(-1);
    const at = last?.kind === 'failpoint' ? last.at : '';
    if (last?.victim === 'sidecar' && !BEFORE_THE_TASK.test(at)) return 0;
    return IN_RECLAIM.test(at) ? 1 : 2;
  };
  return groups.toSorted((a, b) => rank(a) - rank(b)).flat();
}

/** Runs with deaths at any moment: of sidecars, and at last of a sidecar, the launcher, or both. */
export function anyMoment(runs: number, random: () => number): readonly ChainPlan[] {
  const groups = Array.from({ length: runs }, (): Group => {
    const earlier = Math.floor(random() * 3);
    const deaths = Array.from({ length: earlier + 1 }, (_, n): Death => {
      const afterMs = Math.floor(n === 0 ? 100 + random() * 1100 : 120 + random() * 600);
      const victim = n < earlier ? 'sidecar' : pick(['sidecar', 'launcher', 'all'] as const, random);
      return { kind: 'random', afterMs, victim };
    });
    return [{ deaths, pauseMs: pick(PAUSES_MS, random), fresh: random() < 0.5 }];
  });
  return inChains(groups, false);
}

export function pick<T>(items: readonly T[], random: () => number): T {
  return items[Math.floor(random() * items.length)] as T;
}

/** mulberry32: small, and the same everywhere. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled<T>(items: readonly T[], random: () => number): readonly T[] {
  return items
    .map((item) => ({ item, order: random() }))
    .toSorted((a, b) => a.order - b.order)
    .map(({ item }) => item);
}
