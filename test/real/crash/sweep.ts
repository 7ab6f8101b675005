// The points at which attempts die, in chains that a seed puts together.
import type { Failpoint } from '../../../src/native/failpoint.ts';
import type { Link } from './chain.ts';

export type StoreKind = 'file' | 's3';

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
  'reclaim.before-journal': EVERY,
  'reclaim.after-journal': EVERY,
  'reclaim.set-aside': EVERY,
  'reclaim.before-unlink': EVERY,
  'reclaim.after-unlink': EVERY,
  'settle.before-file': ONCE,
  'settle.after-file': ONCE,
  'settle.before-journal': ONCE,
  'restore.before-fetch': TWICE,
  'restore.staged': TWICE,
  'restore.fetched': TWICE,
  'restore.before-place': EVERY,
  'restore.placed': EVERY,
  'finish.scanned': ONCE,
  'finish.settled': ONCE,
  'finish.before-record': ONCE,
  'finish.after-record': ONCE,
  'finish.reclaimed': ONCE,
};

/** Longer chains end less often with two runs that nothing kills; shorter ones say more when one fails. */
const LINKS_IN_CHAIN = 12;

export const FAILPOINTS = Object.keys(POINTS) as readonly Failpoint[];

export interface ChainPlan {
  readonly links: readonly Link[];
  readonly big: boolean;
}

/** All points of one kind of store: each by the sidecar's death, and by all, on the same and another machine. */
export function everyPoint(store: StoreKind, random: () => number): readonly ChainPlan[] {
  const isPart = (at: Failpoint): boolean => /^s3\..*(part|complete)$/.test(at);
  const links = FAILPOINTS.filter((at) => (POINTS[at].only ?? store) === store).flatMap((at) =>
    Array.from({ length: POINTS[at].times }, (_, n) => deathsAt(at, n + 1)).flat(),
  );
  return [
    ...inChains(
      shuffled(
        links.filter((group) => !isPart(group.at)),
        random,
      ),
      false,
    ),
    ...inChains(
      shuffled(
        links.filter((group) => isPart(group.at)),
        random,
      ),
      true,
    ),
  ];
}

interface Group {
  readonly at: Failpoint;
  readonly links: readonly Link[];
}

function deathsAt(at: Failpoint, nth: number): readonly Group[] {
  const kinds = [
    { victim: 'sidecar', fresh: false },
    { victim: 'all', fresh: true },
    { victim: 'all', fresh: false },
  ] as const;
  // Only a death in the middle of a reclaim leaves something for the next start to settle.
  const before: readonly Link[] = at.startsWith('settle.')
    ? [{ kind: 'failpoint', at: 'reclaim.set-aside', nth: 1, victim: 'all', fresh: false }]
    : [];
  return kinds.map((kind) => ({ at, links: [...before, { kind: 'failpoint', at, nth, ...kind }] }));
}

function inChains(groups: readonly Group[], big: boolean): readonly ChainPlan[] {
  const chains: Link[][] = [[]];
  for (const { links } of groups) {
    const last = chains.at(-1) ?? [];
    if (last.length + links.length > LINKS_IN_CHAIN) chains.push([...links]);
    else last.push(...links);
  }
  return chains.filter((links) => links.length > 0).map((links) => ({ links, big }));
}

/** Deaths at any moment of a run, of the sidecar, the launcher, or both. */
export function anyMoment(count: number, random: () => number): readonly ChainPlan[] {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const groups = Array.from({ length: count }, (): Group => {
    const afterMs = Math.floor(100 + random() * 1200);
    const victim = pick(['sidecar', 'launcher', 'all'] as const);
    return { at: 'claim.won', links: [{ kind: 'random', afterMs, victim, fresh: random() < 0.5 }] };
  });
  return inChains(groups, false);
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
