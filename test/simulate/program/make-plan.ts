// Makes a plan for each seed: programs as people write them, some as nobody would, and the deaths and failures that
// they meet.
import { Random } from '../machine/random.ts';
import { CALM, RECORDS, type Weather } from '../store/network.ts';
import type { AttemptPlan, Fault, FilePlan, Idiom, Plan, Round, Write } from './plan.ts';

/** Peculiarities of programs. */
const PROGRAMS = [
  'plain',
  'plain',
  'twice',
  'paused',
  'any-order',
  'changes-order',
  'extra-close',
  'first-round',
  'one-pause-moves',
  'reopens',
] as const;
type ProgramKind = (typeof PROGRAMS)[number];
const CLOSES_LAST_ONCE: ReadonlySet<ProgramKind> = new Set(['plain', 'paused', 'one-pause-moves']);

/** Kernels whose file times have the granularity of a tick. */
const OLDER = ['5.15.0', '6.1.0'].flatMap((osRelease) => [1, 4, 10].map((tickMs) => ({ osRelease, tickMs })));

/** The kernel merges two closes of one file that are closer together, if nobody reads the first. */
const MERGED_WITHIN_MS = 1000;

const SLOWEST_TICK = { osRelease: '6.1.0', tickMs: 10 };
/** A file system that keeps no fraction of a second. */
const WHOLE_SECONDS = { osRelease: '6.14.0', tickMs: 1000 };

/** After so many rounds in one order, a program may go on in another one. */
const CHANGED_AFTER = 4;
const LONG_PAUSE_MS = 120_000;
const LONG_OPEN_MS = 2000;
/** A status that comes later is not known to be that of a process which has died (docs/semantics.md). */
const MOST_SHELL_MS = 9000;
/** Requests that a run sends before its task begins. */
const REQUESTS_BEFORE = 10;

export function makePlan(seed: number): Plan {
  const random = new Random(seed ^ 0x5eed);
  const kind = random.pick(PROGRAMS);
  // Most failures need few steps, and more short schedules than long ones can be tried.
  const isShort = random.chance(0.9);
  const chosen = makeFiles(isShort, random);
  const paced = makeRounds(kind, { files: chosen, isShort }, random);
  // With random numbers of their own, so that the other schedules stay the same.
  const quick = new Random(seed ^ 0x9a1c);
  const apart = new Random(seed ^ 0xdead);
  const make = new Random(seed ^ 0x3a4e);
  const shell = new Random(seed ^ 0x5e11);
  const back = new Random(seed ^ 0xbac1);
  const log = new Random(seed ^ 0x10c5);
  const isQuick = quick.chance(0.08);
  const withinTick = quick.chance(0.5);
  const files = isQuick ? chosen.map((file): FilePlan => ({ ...file, idiom: 'in-place' })) : chosen;
  const rounds = isQuick ? paced.map((round) => quicken(round, withinTick, quick)) : paced;
  const directory = random.chance(0.15) ? random.pick(['written', 'renamed'] as const) : undefined;
  const rotates = random.chance(directory === undefined ? 0.25 : 0.6) ? random.pick([1, 2, 3, 100]) : 0;
  const command = random.chance(0.25) ? 'watch' : 'run';
  if (command === 'run' && random.chance(0.15)) giveToDaemon(rounds, files, random);
  const isFaulty = random.chance(0.6);
  const missesSome = isFaulty && random.chance(0.15);
  if (missesSome) addLongPause(rounds, random);
  const unheard = isFaulty && !missesSome && apart.chance(0.08) ? writeLong(rounds, apart) : undefined;
  const shellMs = shell.chance(0.1) ? shell.ms(1, MOST_SHELL_MS) : undefined;
  const survived = isFaulty && shellMs !== undefined && !missesSome ? writeLong(rounds, shell) : undefined;
  const durationMs = rounds.reduce((sum, round) => sum + durationOf(round), 0);
  const isCalm = !isFaulty || missesSome || random.chance(0.4);
  const air = isCalm ? calmWeather(random) : makeWeather(random);
  const times = { durationMs, closesAtMs: closesOf(rounds, air) };
  const attempts = isFaulty
    ? Array.from({ length: isShort ? 1 : random.pick([1, 1, 2]) }, () => ({
        faults: makeFaults(times, random),
      }))
    : [];
  // Only a scan sees what was closed meanwhile, and it lists directories in any order.
  if (directory === 'written' && isFaulty && random.chance(0.7))
    attempts.unshift({ faults: [{ kind: 'sidecar-dies', atMs: near(times.closesAtMs, random) }] });
  if (missesSome) attempts.unshift({ faults: makeMissed(rounds, air, random) });
  const outages = isCalm ? air.outages : makeOutages(attempts[0], durationMs, random);
  const death = unheard === undefined ? undefined : makeUnheard(times.closesAtMs[unheard] ?? 0, apart);
  if (death !== undefined) attempts.unshift({ faults: death.faults });
  if (survived !== undefined)
    attempts.unshift({ faults: [deathBefore(times.closesAtMs[survived] ?? 0, shell)] });
  const struck =
    isFaulty && !missesSome && random.chance(0.35) ? makeDeaf(files, times, attempts[0], random) : [];
  const results = files.filter(({ role }) => role === 'result');
  const returns = !missesSome && results.length > 0 && back.chance(0.08);
  const deaf = returns && isFaulty ? [...struck, ...makeDeaf(results, times, undefined, back)] : struck;
  const weather = { ...air, deaf, outages: [...outages, ...(death?.outages ?? [])] };
  const skips = make.chance(0.06);
  const held = skips || isQuick || !log.chance(0.1) ? undefined : pickHeld(results, rounds, log);
  const isAppended = !skips && !isQuick && results.some(({ idiom }) => idiom === 'append') && log.chance(0.3);
  if ((held !== undefined || isAppended) && isFaulty && !missesSome)
    attempts.unshift(...makeAfterCheckpoint(files, rounds, times, log));
  const mostQueuedEvents = missesSome || random.chance(0.1) ? random.pick([1, 2, 4, 8, 16]) : 16_384;
  return {
    seed,
    kind,
    command,
    watchAfterMs:
      command === 'watch' && random.chance(0.6) ? Math.round(durationMs * 0.5 * random.next()) : 0,
    exitFile: random.pick(['always', 'unless-killed', 'none'] as const),
    store: random.chance(isShort ? 0.5 : 0.7) ? 's3' : 'file',
    honoursIfMatch: random.chance(0.7),
    rotates,
    directory,
    files: files.map((file) => (file === held ? { ...file, idiom: 'held' } : file)),
    rounds,
    shellMs,
    attempts,
    sameWorkdir: random.chance(0.3),
    // Only a machine that keeps its disk has results at the beginning.
    ...(skips ? { sameWorkdir: true, skipsPresent: true } : {}),
    weather,
    options: [
      ...makeOptions(random),
      ...(directory === undefined ? nameLast(kind, files, rotates, random) : []),
    ],
    ...random.pick([...OLDER, { osRelease: '6.14.0', tickMs: 0 }]),
    ...(isQuick ? SLOWEST_TICK : {}),
    ...(make.chance(0.1) ? WHOLE_SECONDS : {}),
    ...(make.chance(0.05) ? { putsTimesBack: true } : {}),
    ...(returns ? { returns } : {}),
    mostQueuedEvents,
  };
}

function makeFiles(isShort: boolean, random: Random): FilePlan[] {
  const idiom = (): Idiom => random.pick(['in-place', 'in-place', 'rename', 'rename', 'append']);
  const fill = (): number => (random.chance(0.03) ? 300_000 : random.pick([0, 10, 400, 5000]));
  const ofAll = idiom();
  const members = ['a', 'b', 'c', 'd'].slice(0, random.pick(isShort ? [0, 1, 2] : [0, 1, 2, 2, 2, 3, 4]));
  const results = ['r', 's', 't'].slice(0, random.pick(isShort ? [0, 1] : [0, 1, 1, 2]));
  if (members.length + results.length === 0) members.push('a');
  const plan = (name: string, role: FilePlan['role']): FilePlan => ({
    name,
    role,
    idiom: role === 'member' && ofAll !== 'append' ? ofAll : idiom(),
    fillBytes: fill(),
  });
  return [...members.map((name) => plan(name, 'member')), ...results.map((name) => plan(name, 'result'))];
}

interface Size {
  readonly files: readonly FilePlan[];
  readonly isShort: boolean;
}

function makeRounds(kind: ProgramKind, { files, isShort }: Size, random: Random): Round[] {
  const count =
    kind === 'changes-order' ? CHANGED_AFTER + 3 : random.pick(isShort ? [2, 2, 3, 4] : [2, 3, 4, 6, 10]);
  const inner = new Map(files.map(({ name }) => [name, random.ms(1, 3000)]));
  const between = random.ms(50, 8000);
  const jitter = random.pick([0, 0.1, 0.5]);
  const jittered = (ms: number): number => Math.max(1, Math.round(ms * (1 + jitter * (random.next() - 0.5))));
  const members = files.filter(({ role }) => role === 'member').map(({ name }) => name);
  const results = files.filter(({ role }) => role === 'result').map(({ name }) => name);
  const flushes = random.chance(0.2);
  const rewrites = random.pick([0.3, 0.3, 1]);
  // Each result belongs to one round, and is not written again.
  const once = random.chance(0.3) ? new Map(results.map((name) => [name, random.int(count)])) : undefined;
  let order = members;
  return Array.from({ length: count }, (_, n) => {
    const isOther = kind === 'any-order' || (kind === 'changes-order' && n === CHANGED_AFTER);
    const last = order.at(-1);
    if (isOther) order = random.shuffled(members);
    // Closes cannot tell that the last file of a round is closed once more before anybody reads them.
    const restMs = kind === 'changes-order' && isOther && order[0] === last ? MERGED_WITHIN_MS : 0;
    const written = results.filter((name) =>
      once === undefined ? n === count - 1 || random.chance(rewrites) : once.get(name) === n,
    );
    const names = random.chance(0.5) ? [...order, ...written] : [...written, ...order];
    const writes = names.map((file, at): Write => {
      const isOdd =
        (kind === 'twice' && members.includes(file)) ||
        (kind === 'reopens' && results.includes(file)) ||
        (kind === 'extra-close' && n > 2 && random.chance(0.1)) ||
        (kind === 'first-round' && n === 0 && at === 0 && random.chance(0.7));
      return {
        file,
        versions: isOdd ? 2 : 1,
        isSame: random.chance(0.3),
        betweenMs: random.ms(1, 200),
        beforeMs:
          jittered(inner.get(file) ?? 1) +
          (file === last ? restMs : 0) +
          (kind === 'paused' && random.chance(0.05) ? random.ms(3000, 60_000) : 0),
        openMs: random.pick(kind === 'reopens' ? [1, 20, 300] : [0, 0, 1, 20, 300]),
        child: random.chance(0.05),
      };
    });
    const pauseMs =
      kind === 'one-pause-moves' && random.chance(0.2) ? random.ms(10, 30_000) : jittered(between);
    return { writes, pauseMs, flush: flushes && random.chance(0.4) };
  });
}

/**
 * Lets a file be written again within the tick of its last write, so that neither its times nor its size show it.
 * `withinTick`: so may whole rounds.
 */
function quicken({ writes, flush }: Round, withinTick: boolean, random: Random): Round {
  const beforeMs = (): number => (withinTick ? random.int(3) : 5 + random.int(30));
  const quickly = (write: Write): Write => ({ ...write, beforeMs: beforeMs(), openMs: 0 });
  return { writes: writes.map(quickly), pauseMs: withinTick ? random.int(5) : 50 + random.int(40), flush };
}

function durationOf({ writes, pauseMs }: Round): number {
  return writes.reduce(
    (sum, one) => sum + one.beforeMs + one.versions * (one.openMs + one.betweenMs),
    pauseMs,
  );
}

/** When files will be closed, as far as the plan can know: the task begins after some requests. */
function closesOf(rounds: readonly Round[], { latencyMs }: Weather): readonly number[] {
  const at: number[] = [];
  let nowMs = REQUESTS_BEFORE * latencyMs;
  for (const { writes, pauseMs } of rounds) {
    for (const { beforeMs, versions, openMs, betweenMs } of writes)
      at.push((nowMs += beforeMs + versions * (openMs + betweenMs) - betweenMs));
    nowMs += pauseMs;
  }
  return at;
}

/**
 * Gives the last write of a result to a daemon, after the members of its round. Nothing is promised for two writers of
 * one file, or for a checkpoint that relies on a process that has not ended.
 */
function giveToDaemon(rounds: Round[], files: readonly FilePlan[], random: Random): void {
  const results = files.filter(({ role }) => role === 'result');
  const file = results.length === 0 ? undefined : random.pick(results).name;
  const at = rounds.findLastIndex(({ writes }) => writes.some((write) => write.file === file));
  const round = rounds[at];
  const isMember = (name: string): boolean => !results.some((result) => result.name === name);
  if (rounds.slice(at + 1).some(({ writes }) => writes.some((write) => isMember(write.file)))) return;
  const lastMember = round?.writes.findLastIndex((write) => isMember(write.file)) ?? -1;
  if (round === undefined || round.writes.findIndex((write) => write.file === file) < lastMember) return;
  const openMs = random.pick([1, 300, 60_000]);
  const writes = round.writes.map((write) =>
    write.file === file ? { ...write, daemon: true, openMs } : write,
  );
  rounds[at] = { ...round, writes };
}

/** Adds a pause after a round, so that what was missed in it is stored long before the next. */
function addLongPause(rounds: Round[], random: Random): void {
  const at = random.pick([...rounds.keys()].filter((one) => rounds[one]?.writes.length !== 0));
  rounds[at] = { ...(rounds[at] as Round), pauseMs: LONG_PAUSE_MS };
}

/** Just before the long pause, the sidecar dies or stalls. It has time to catch up before everything dies. */
function makeMissed(rounds: readonly Round[], weather: Weather, random: Random): Fault[] {
  const at = rounds.findIndex(({ pauseMs }) => pauseMs === LONG_PAUSE_MS);
  const last = rounds[at]?.writes.length ?? 0;
  const atMs = near(closesOf(rounds.slice(0, at + 1), weather).slice(-last), random);
  const missing: Fault = random.chance(0.5)
    ? { kind: 'sidecar-dies', atMs }
    : { kind: 'sidecar-stalls', atMs, ms: random.ms(500, 10_000) };
  return [missing, { kind: 'machine-dies', atMs: atMs + random.ms(50_000, 110_000) }];
}

/** Keeps a file open so long that something can happen meanwhile. Returns the number of that write. */
function writeLong(rounds: Round[], random: Random): number {
  const nth = random.int(rounds.reduce((sum, { writes }) => sum + writes.length, 0));
  let before = 0;
  for (const [at, round] of rounds.entries()) {
    const writes = round.writes.map((write, n) =>
      before + n === nth ? { ...write, versions: 1, openMs: LONG_OPEN_MS } : write,
    );
    rounds[at] = { ...round, writes };
    before += writes.length;
  }
  return nth;
}

/** The task dies while it writes. For longer than a doubt lasts, the sidecar stalls, or cannot store anything. */
function makeUnheard(closesAtMs: number, random: Random): { faults: Fault[]; outages: Weather['outages'] } {
  const death = deathBefore(closesAtMs, random);
  const fromMs = Math.max(0, death.atMs + random.int(400) - 200);
  const ms = random.int(50_000) + 5000;
  if (random.chance(0.5)) return { faults: [death], outages: [{ fromMs, untilMs: fromMs + ms }] };
  return { faults: [death, { kind: 'sidecar-stalls', atMs: fromMs, ms }], outages: [] };
}

/** A result that the task may hold open: no daemon writes it. */
function pickHeld(
  results: readonly FilePlan[],
  rounds: readonly Round[],
  random: Random,
): FilePlan | undefined {
  const isDaemons = ({ name }: FilePlan): boolean =>
    rounds.some(({ writes }) => writes.some(({ file, daemon }) => file === name && daemon === true));
  const own = results.filter((file) => !isDaemons(file));
  return own.length === 0 ? undefined : random.pick(own);
}

/** Attempts that die as soon as they have closed a member, while the sidecar may be busy. */
function makeAfterCheckpoint(
  files: readonly FilePlan[],
  rounds: readonly Round[],
  { closesAtMs }: Times,
  random: Random,
): { faults: Fault[] }[] {
  const members = new Set(files.filter(({ role }) => role === 'member').map(({ name }) => name));
  const written = rounds.flatMap(({ writes }) => writes.map(({ file }) => file));
  const atMs = closesAtMs.filter((_, n) => members.has(written[n] ?? ''));
  if (atMs.length === 0) return [];
  return Array.from({ length: 1 + random.int(2) }, () => {
    const diesAtMs = random.pick(atMs) + random.ms(1, 100);
    const stalls: Fault = {
      kind: 'sidecar-stalls',
      atMs: Math.max(0, diesAtMs - 200),
      ms: random.ms(300, 1000),
    };
    return { faults: [...(random.chance(0.5) ? [stalls] : []), { kind: 'task-dies', atMs: diesAtMs }] };
  });
}

/** The program dies while it writes. */
function deathBefore(closesAtMs: number, random: Random): Fault {
  return { kind: 'task-dies', atMs: Math.max(0, closesAtMs - random.int(LONG_OPEN_MS)) };
}

/** In half of the cases, an instant while the file is open. */
function near(closesAtMs: readonly number[], random: Random): number {
  return Math.max(
    0,
    Math.round(random.pick(closesAtMs) + (random.chance(0.5) ? random.int(1000) - 500 : -random.ms(1, 100))),
  );
}

interface Times {
  readonly durationMs: number;
  readonly closesAtMs: readonly number[];
}

function makeFaults({ durationMs, closesAtMs }: Times, random: Random): Fault[] {
  const at = (): number =>
    random.chance(0.4) ? near(closesAtMs, random) : Math.round(durationMs * random.next() * 1.1);
  const kinds = [
    'sidecar-dies',
    'sidecar-dies',
    'sidecar-dies-at-call',
    'launcher-dies',
    'machine-dies',
    'machine-dies',
    'task-dies',
    'term',
    'term',
    'sidecar-stalls',
    'machine-freezes',
    'disk-full',
    'notice',
  ] as const;
  return Array.from({ length: random.pick([1, 1, 2, 3]) }, (): Fault[] => {
    const kind = random.pick(kinds);
    const atMs = at();
    if (kind === 'notice') return makeNotice(atMs, random);
    if (kind === 'sidecar-dies-at-call') return [{ kind, atMs, calls: random.int(300) }];
    if (kind === 'sidecar-stalls') return [{ kind, atMs, ms: random.ms(10, 20_000) }];
    if (kind === 'disk-full')
      return [{ kind, below: random.pick(['/work', '/store']), atMs, ms: random.ms(100, 60_000) }];
    if (kind === 'machine-freezes') return [{ kind, atMs, ms: random.ms(15_000, 300_000) }];
    return [{ kind, atMs }];
  }).flat();
}

/** In half of the cases, the machine goes away when the notice says. */
function makeNotice(atMs: number, random: Random): Fault[] {
  const graceMs = random.pick([3000, 10_000, 30_000]);
  const notice: Fault = { kind: 'notice', atMs, graceMs };
  return random.chance(0.5) ? [notice, { kind: 'machine-dies', atMs: atMs + graceMs }] : [notice];
}

function calmWeather(random: Random): Weather {
  return { ...CALM, latencyMs: random.pick([0.5, 5, 50, 300]) };
}

function makeWeather(random: Random): Weather {
  const share = (): number => random.pick([0, 0, 0.02, 0.1]);
  return {
    deaf: [],
    lostAnswers: share(),
    lateArrivals: 2 * share(),
    repeats: random.pick([0, 0, 0.1, 0.3]),
    refusals: share(),
    silences: random.pick([0, 0, 0, 0.02]),
    outages: [],
    latencyMs: random.pick([0.5, 5, 50, 300, 2000]),
    bytesPerS: random.pick([1e9, 1e6, 20_000]),
  };
}

/** In half of the cases, the store is out of reach just when something else goes wrong. */
function makeOutages(first: AttemptPlan | undefined, durationMs: number, random: Random): Weather['outages'] {
  if (random.chance(0.6)) return [];
  const struckAtMs = first?.faults.map(({ atMs }) => atMs) ?? [];
  const isThen = struckAtMs.length > 0 && random.chance(0.5);
  const fromMs = isThen ? random.pick(struckAtMs) - random.ms(10, 3000) : anyTime(durationMs, random);
  return [{ fromMs: Math.max(0, fromMs), untilMs: fromMs + random.ms(500, 120_000) }];
}

/** In half of the cases, puts of one key get no answer when something else goes wrong. */
function makeDeaf(
  files: readonly FilePlan[],
  { durationMs }: Times,
  first: AttemptPlan | undefined,
  random: Random,
): Weather['deaf'] {
  const struckAtMs = first?.faults.map(({ atMs }) => atMs) ?? [];
  const isThen = struckAtMs.length > 0 && random.chance(0.5);
  const fromMs = isThen ? random.pick(struckAtMs) - random.ms(10, 10_000) : anyTime(durationMs, random);
  const file = random.chance(0.2) ? RECORDS : random.pick(files).name;
  const put = random.pick(['lost', 'late', 'stored'] as const);
  return [{ file, fromMs: Math.max(0, fromMs), untilMs: fromMs + random.ms(500, 60_000), put }];
}

/** In half of the cases, an instant near the end: what begins then goes on beyond it. */
function anyTime(durationMs: number, random: Random): number {
  return Math.round(durationMs * (random.chance(0.5) ? random.next() : 0.8 + 0.2 * random.next()));
}

/** Names the last file of a round, if the program closes that one last in each round. */
function nameLast(
  kind: ProgramKind,
  files: readonly FilePlan[],
  rotates: number,
  random: Random,
): readonly string[] {
  const last = files.findLast(({ role }) => role === 'member')?.name;
  if (last === undefined || !CLOSES_LAST_ONCE.has(kind) || !random.chance(0.3)) return [];
  return ['--checkpoint-last', rotates > 0 ? `${last}.*` : last];
}

function makeOptions(random: Random): string[] {
  return [
    ...(random.chance(0.2) ? ['--checkpoint-settle', random.pick(['200ms', '1s', '5s'])] : []),
    ...(random.chance(0.5) ? ['--generations', random.pick(['1', '2', '5', '60'])] : []),
    ...(random.chance(0.4) ? ['--reclaim', random.pick(['never', 'now'])] : []),
    ...(random.chance(0.2) ? ['--drain-timeout', random.pick(['500ms', '1s', '2s', '5s', '10s'])] : []),
  ];
}
