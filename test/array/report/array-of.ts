// A store that holds what a real array leaves: most indices are done, some after kills and preemptions, others failed,
// vanished, or have not begun. The same for the same size.
import type { CaptureRecord } from '../../../src/model/format/records.ts';
import type { Given, StoreOfRecords } from '../store-of-records.ts';

const HOUR_MS = 3_600_000;

/** Numbers from 0 to 1 that look like chance (Numerical Recipes, "Quick and dirty" generators). */
function chance(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32) / 2 ** 32;
}

const iso = (ms: number): string => new Date(ms).toISOString();

const file = (path: string, ending: string, size: number): object => ({
  path,
  key: `${path}.${ending}.zst`,
  push: 'p',
  attempt: 1,
  md5: 'd41d8cd98f00b204e9800998ecf8427e',
  size,
  storedSize: Math.round(size / 3),
  compressed: true,
  mtimeNs: '0',
  mode: 0o644,
});

/** A program that grows in memory and writes at its steps. */
function resourcesOf(fromMs: number, ranMs: number, draw: () => number): CaptureRecord['resources'] {
  const steps = Math.max(1, Math.min(48, Math.round(ranMs / 80_000)));
  const each = (of: (share: number) => number): number[] =>
    Array.from({ length: steps }, (_, at) => Math.round(of(at / steps)));
  const grown = 300 + draw() * 500;
  const memory = each((share) => grown * (0.2 + 0.8 * share));
  const cpu = each(() => 200 + draw() * 56);
  const written = each((share) => ((share * 8) % 1 < 0.2 ? draw() * 900 : 0));
  const space = each((share) => 100 + share * 400);
  const peakMemoryBytes = Math.max(...memory) * 2 ** 22;
  return {
    task: { cpuS: (ranMs / 1000) * 0.9, peakMemoryBytes },
    capture: { cpuS: 3, peakMemoryBytes: 2 ** 26 },
    job: { peakMemoryBytes, limitBytes: 2 ** 32 },
    from: iso(fromMs),
    stepS: Math.max(10, Math.round(ranMs / steps / 1000)),
    series: {
      taskCpu: { unit: 2 ** -7, mean: cpu, max: cpu },
      taskMemory: { unit: 2 ** 22, mean: memory, max: memory },
      taskWritten: { unit: 2 ** 17, mean: written, max: written },
      space: { unit: 2 ** 20, mean: space, max: space },
    },
  };
}

export interface ArrayOf {
  readonly indices: number;
  readonly nowMs: number;
}

/** Index 7 of each hundred fails, 12 vanishes, and of the last hundredth nothing has begun. */
export function fillArray(store: StoreOfRecords, { indices, nowMs }: ArrayOf): void {
  const draw = chance(indices);
  for (let at = 0; at < indices; at += 1) {
    if (at >= indices - Math.ceil(indices / 100)) continue;
    fillIndex(store, {
      at,
      nowMs,
      draw,
      index: String(at),
      beginMs: nowMs - (10 - (4 * at) / indices) * HOUR_MS,
    });
  }
}

interface OneOf {
  readonly at: number;
  readonly index: string;
  readonly beginMs: number;
  readonly nowMs: number;
  readonly draw: () => number;
}

function fillIndex(store: StoreOfRecords, { at, index, beginMs, nowMs, draw }: OneOf): void {
  let [fromMs, restored] = [beginMs + draw() * HOUR_MS, undefined as string | undefined];
  const interruptions = draw() < 0.15 ? (draw() < 0.3 ? 2 : 1) : 0;
  for (let attempt = 1; ; attempt += 1) {
    const isLast = attempt > interruptions;
    const ranMs = (0.3 + draw()) * HOUR_MS * (at % 97 === 5 ? 3 : 1);
    const host = `node${String((at * 7 + attempt) % 64).padStart(2, '0')}`;
    const common = { index, attempt, host, startedAt: iso(fromMs), argv: ['lmp'] } satisfies Partial<Given>;
    store.record({ ...common, seq: 0, kind: 'started', at: iso(fromMs) }, fromMs);
    const safeMs = fromMs + ranMs * 0.8;
    const generation = {
      attempt,
      generation: 3,
      at: iso(safeMs),
      members: [file('melt.chk', `t.${index}.${attempt}-3`, 2 ** 24)],
      companions: [],
    };
    const said = {
      ...common,
      at: iso(fromMs + ranMs),
      restored,
      generations: [generation],
      resources: resourcesOf(fromMs, ranMs, draw),
    } as unknown as Given;
    if (!isLast) {
      const kind = draw() < 0.6 ? 'preempted' : 'checkpoint';
      store.record({ ...said, seq: 8, kind }, fromMs + ranMs);
      [fromMs, restored] = [fromMs + ranMs + 120_000, `${attempt}-3`];
      continue;
    }
    const results = [file('final.data', index, 3e6), file('melt.log', index, 4e4)];
    const last = { ...said, seq: 9, results } as unknown as Given;
    if (at % 100 === 7) {
      const end = at % 200 === 7 ? { signal: 'SIGKILL', status: 137 } : { code: 1, status: 1 };
      store.record({ ...last, kind: 'failed', status: end.status, end }, fromMs + ranMs);
    } else if (at % 100 === 12) store.record({ ...last, kind: 'checkpoint' }, fromMs + ranMs);
    else if (at % 250 === 99)
      store.record({ ...last, kind: 'stored', at: iso(nowMs - 60_000) }, nowMs - 60_000);
    else store.record({ ...last, kind: 'done', end: { code: 0, status: 0 } }, fromMs + ranMs);
    return;
  }
}
