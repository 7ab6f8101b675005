// Knows what the programs have closed, and when; sees every object that the store gets and every file that goes; and says
// what must never be. It believes records only where they promise something.
import { createHash } from 'node:crypto';
import type { SimProcess } from '../machine/process.ts';
import { type State, stateIn } from '../program/content.ts';
import { nameIn } from '../program/task.ts';
import type { Fault, FilePlan, Plan } from '../program/plan.ts';
import { isCalm } from '../store/network.ts';
import {
  isLast,
  parseRecord,
  type CaptureRecord,
  type Generation,
} from '../../../src/model/format/records.ts';

export interface Finding {
  /** One word for what must never be. */
  readonly rule: string;
  readonly atMs: number;
  readonly what: string;
}

interface Closed {
  readonly path: string;
  readonly state: State | undefined;
  readonly atMs: number;
  readonly order: number;
  /** Of the schedule, from 1 on. */
  readonly attempt: number;
}

/** What went wrong in an attempt. */
interface Disturbance {
  readonly faults: readonly Fault[];
  readonly hasStoppedDaemon: boolean;
}

interface OracleOptions {
  readonly plan: Plan;
  readonly nowMs: () => number;
  /** The object under a key of the store, as text. */
  readonly objectAt: (key: string) => string | undefined;
  readonly keys: () => readonly string[];
}

const TRIES_EACH = 2;
/** By exit status: the task was killed, or something could not be stored. */
const FAILURES: ReadonlySet<number> = new Set([70, 74, 137, 143]);
/** It did not begin: the store gave no answer that it could go by. */
const UNAVAILABLE = 69;
const INTERNAL = 70;
/** Faults that leave the launcher and the sidecar their time to store all. */
const ORDERLY: ReadonlySet<Fault['kind']> = new Set(['term', 'task-dies']);
/** Of no place in the order of closes. */
const GONE = -1;
export const INDEX = '7';
export const TASK_NAME = 'sim';
/** A state that stood for less than this, nobody need have read: the push before it may have been under way. */
const BRIEFLY_MS = 1000;
const RECORDS = `.capture/${TASK_NAME}/${INDEX}/`;

export class Oracle {
  readonly findings: Finding[] = [];
  readonly #options: OracleOptions;
  /** By content: what programs have closed themselves. */
  readonly #closed = new Map<string, Closed>();
  /** By path: the last that was closed. */
  readonly #lastClosed = new Map<string, Closed>();
  /** By path: the newest that a record names under its good key. */
  readonly #promised = new Map<string, Closed>();
  /** By file, whatever its name was: the last that was closed. */
  readonly #lastOf = new Map<string, Closed>();
  /** States that the program began to overwrite as soon as they were closed. */
  readonly #brief = new Set<Closed>();
  readonly #judged = new Set<string>();
  readonly #records = new Map<string, CaptureRecord>();
  #order = 0;
  /** Of the schedule. */
  #attempts = 0;
  readonly #claims = new Set<number>();
  /** By good key: the state that stands there, and its content. */
  readonly #underName = new Map<string, { readonly text: string; readonly closed: Closed }>();
  /** Generations that were called good, and their newest round: what each later attempt is promised. */
  readonly #safeRounds = new Map<string, number>();
  #isLauncherLost = false;
  #newestAttempt = 0;
  /** Closes before the newest task began. */
  #begunAt = 0;
  /** Attempts that ended as if the task, or the set that it began with, were to blame. */
  #failures = 0;
  /** What stood in the work directory before the newest task. */
  #found: ReadonlyMap<string, string> = new Map();
  /** capture has stopped a process that this attempt's task had left behind. */
  #hasStoppedDaemon = false;
  /** The record that is looked at came after the claim of the next attempt. */
  #isLate = false;
  counts = new Map<string, number>();

  constructor(options: OracleOptions) {
    this.#options = options;
  }

  // --- what programs do

  /** `isGone`: of a machine that another attempt has taken over from. */
  closed(path: string, content: string, isGone = false): void {
    const now = { path, state: stateIn(content), atMs: this.#options.nowMs(), attempt: this.#attempts };
    if (isGone) {
      if (!this.#closed.has(content)) this.#closed.set(content, { ...now, order: GONE });
      return;
    }
    const one = { ...now, order: (this.#order += 1) };
    this.#closed.set(content, one);
    this.#lastClosed.set(path, one);
    this.#lastOf.set(one.state?.file ?? path, one);
  }

  /** The task writes it again in place. */
  opened(path: string): void {
    for (const [file, closed] of this.#lastOf) if (closed.path === path) this.#lastOf.delete(file);
    const last = this.#lastClosed.get(path);
    if (last !== undefined && this.#options.nowMs() - last.atMs < BRIEFLY_MS) this.#brief.add(last);
  }

  /** A machine begins to work on the index. */
  attemptBegins(): void {
    this.#attempts += 1;
    this.#hasStoppedDaemon = false;
  }

  daemonStopped(): void {
    this.#hasStoppedDaemon = true;
  }

  /** A task begins with what was restored, or with what it finds. */
  begun(process: SimProcess, found: ReadonlyMap<string, string>, restored: string): void {
    this.#begunAt = this.#order;
    this.#found = found;
    const attempt = Number(process.environment['CAPTURED_ATTEMPT'] ?? this.#newestAttempt);
    // A machine that stood still while it began may not know yet that another has the index.
    if (restored === '' || attempt < this.#newestAttempt) return;
    const generation = this.#generation(restored);
    if (generation === undefined) return this.#find('restored-unknown', `${restored} is in no record`);
    if (!isGood(generation)) return;
    for (const { path } of generation.members)
      if (!this.#closed.has(found.get(path) ?? '')) this.#find('restored-torn', `${path} of ${restored}`);
    const round = Math.max(
      0,
      ...generation.members.map(({ path }) => stateIn(found.get(path) ?? '')?.round ?? 0),
    );
    const safeRound = Math.max(0, ...this.#safeRounds.values());
    // From one set attempts fail twice, then the one before it is tried (docs/semantics.md).
    if (round < safeRound && this.#failures < TRIES_EACH)
      this.#find('restored-elder', `${restored} has round ${round}, and ${safeRound} was safe`);
  }

  /** How many there were by now. */
  get closes(): number {
    return this.#order;
  }

  /** `capture flush` has answered that all which was closed by then is stored and recorded. */
  flushed(closes: number): void {
    for (const { name, role } of this.#options.plan.files) {
      const last = this.#lastClosed.get(name);
      // What an earlier attempt closed, this one's flush does not know.
      if (role !== 'result' || last === undefined || last.order > closes || last.order <= this.#begunAt)
        continue;
      const there = this.#options.objectAt(`${name}.${INDEX}`);
      const stored = there === undefined ? undefined : this.#closed.get(there);
      // What a scan found after the kernel had dropped events, the task has not vouched for.
      const isBeside = this.#overflows() && this.#isAnywhere(last);
      if ((stored?.order ?? GONE) < last.order && !isBeside)
        this.#find(
          'flush-lied',
          `${shown(last)} was closed before the flush, and ${name}.${INDEX} holds ${short(there ?? 'nothing')}`,
        );
      else if (!isBeside) this.#promised.set(name, last);
    }
  }

  /** Nobody sees how the task ends: what it closed last may be called suspect (docs/semantics.md). */
  launcherDied(): void {
    this.#isLauncherLost = true;
  }

  // --- what the store gets

  changed(key: string): void {
    const text = this.#options.objectAt(key);
    if (text === undefined) return;
    if (key.startsWith(RECORDS)) return this.#recorded(key, text);
    const path = this.#goodPath(key);
    if (path === undefined) return;
    const closed = this.#closed.get(text);
    if (closed === undefined && this.isBlind) return;
    // Half written when a machine died, and the process that would have written it again was stopped before: the task has
    // ended with 0 beside it.
    if (closed === undefined && this.#hasStoppedDaemon && this.#found.get(path) === text) return;
    if (closed === undefined)
      return this.#find('good-name-torn', `${key} holds what nobody has closed: ${short(text)}`);
    this.#replaced(key, { text, closed });
    const promised = this.#promised.get(path);
    // The request of a machine that stood still may be on its way: what it replaces is stored anew, by the end.
    if (closed.order === GONE) return;
    if (promised !== undefined && closed.order < promised.order)
      this.#find('elder-after-younger', `${key} holds ${short(text)}, and ${shown(promised)} was recorded`);
  }

  /** The sidecar deletes a file of the task: all of it must be stored. */
  deleted(path: string, content: string): void {
    if (!this.#options.keys().some((key) => this.#options.objectAt(key)?.includes(content) === true))
      return this.#find('deleted-unstored', `${path}: ${short(content)}`);
    // The last record has dropped the checkpoints of an index that is done.
    if (this.#newestRecord()?.kind === 'done') return;
    const sum = createHash('md5').update(content).digest('hex');
    const isIt = ({ md5 }: { readonly md5: string }): boolean => md5 === sum;
    const names = ({ results, generations }: CaptureRecord): boolean =>
      results.some(isIt) || generations.some(({ members }) => members.some(isIt));
    if (![...this.#records.values()].some(names))
      this.#find('deleted-unrecorded', `${path}: ${short(content)}`);
  }

  /** What an earlier attempt stored under a good name stays, under another one. */
  #replaced(key: string, now: { readonly text: string; readonly closed: Closed }): void {
    const before = this.#underName.get(key);
    this.#underName.set(key, now);
    // A machine that stands still is in no order with others.
    if (before === undefined || before.text === now.text || this.#freezes()) return;
    if (before.closed.attempt === now.closed.attempt) return;
    if (!this.#options.keys().some((one) => one !== key && this.#options.objectAt(one) === before.text))
      this.#find('replaced-silently', `${key}: ${short(before.text)} of an earlier attempt is nowhere else`);
  }

  /** So long it waits for the store at its end, and at most so long at its start. */
  #isHurried(): boolean {
    return this.#options.plan.options.includes('--drain-timeout');
  }

  #overflows(): boolean {
    return this.#options.plan.mostQueuedEvents < 1000;
  }

  #freezes(): boolean {
    return this.#options.plan.attempts.some(({ faults }) =>
      faults.some(({ kind }) => kind === 'machine-freezes'),
    );
  }

  // --- at the end

  /** The launcher has ended with this status. */
  ended(status: number, { faults, hasStoppedDaemon }: Disturbance): void {
    if (FAILURES.has(status)) this.#failures += 1;
    const newest = this.#newestRecord();
    const isRecorded = newest !== undefined && isLast(newest.kind);
    // A machine that stood still may have claimed the next attempt meanwhile.
    if (status === 0 && !this.#freezes() && !isRecorded)
      this.#find('done-unrecorded', `exit 0, and the newest record is ${newest?.kind ?? 'nowhere'}`);
    const isOrderly = !hasStoppedDaemon && faults.every(({ kind }) => ORDERLY.has(kind));
    if (status === UNAVAILABLE && isOrderly && this.#isReachable())
      this.#find('gave-up', 'the store refuses a request now and then, and the run did not begin');
    if (status === INTERNAL && isOrderly) this.#find('internal-error', `the run ended with ${status}`);
    if (isOrderly) this.#drained();
    // Of a task that nobody tells of, 0 only says what became of what was seen.
    if (status !== 0 || this.isBlind || newest?.kind === 'ended') return;
    for (const { name, role } of this.#options.plan.files) {
      if (role !== 'result') continue;
      const last = this.#lastClosed.get(name);
      const there = this.#options.objectAt(`${name}.${INDEX}`);
      // Of a process left behind that is ended before it begins, an earlier attempt may have told more.
      if (last === undefined || (hasStoppedDaemon && last.order <= this.#begunAt)) continue;
      const stored = there === undefined ? undefined : this.#closed.get(there);
      // A machine that was given up may have gone on, and be the one that wrote last.
      const isOfGone = stored?.order === GONE && stored.atMs >= last.atMs;
      if (stored?.order !== last.order && !isOfGone && !this.#isNamed(name))
        this.#find(
          'done-without-result',
          `exit 0, ${name}.${INDEX} holds ${short(there ?? 'nothing')}, and ${shown(last)} was closed last`,
        );
      // Under a name that nobody has, a machine that stood still may store it after that record.
      else if (
        isRecorded &&
        !this.#freezes() &&
        !this.#isNamed(name) &&
        !newest.results.some(({ path }) => path === name)
      )
        this.#find(
          'stored-unrecorded',
          `exit 0, ${name}.${INDEX} is stored, and the last record does not say so`,
        );
    }
  }

  /** It is stored, whatever its name. */
  #isAnywhere(state: Closed): boolean {
    const { keys, objectAt } = this.#options;
    return keys().some((key) => this.#closed.get(objectAt(key) ?? '') === state);
  }

  /** Requests are refused now and then, and answered when they are tried again. */
  #isReachable(): boolean {
    const { outages, silences, lateArrivals } = this.#options.plan.weather;
    return outages.length + silences + lateArrivals === 0 && !this.#isHurried() && !this.#freezes();
  }

  /** There was time: what the task has closed is stored, under whatever name. */
  #drained(): void {
    const { plan } = this.#options;
    // A machine that stood still may have taken the index over.
    if (!isCalm(plan.weather) || this.#isHurried() || this.#freezes() || this.isBlind) return;
    const left = this.#newestRecord()?.left ?? [];
    for (const { name, role } of plan.files) {
      const last = this.#lastClosed.get(name);
      if (role !== 'result' || last === undefined || last.order <= this.#begunAt) continue;
      // Of an attempt that was ended before its task began.
      if (last.attempt !== this.#attempts) continue;
      // A watch may begin when the task writes it again.
      if (plan.command === 'watch' && this.#lastOf.get(name) !== last) continue;
      if (this.#brief.has(last)) continue;
      if (!this.#isAnywhere(last))
        this.#find('not-drained', `${shown(last)} was closed, nobody was in a hurry, and it is nowhere`);
      // Of earlier attempts there may be more to miss.
      else if (this.#attempts === 1 && left.some(({ path }) => path === name))
        this.#find('not-drained', `${shown(last)} is stored, and the record says that it is not`);
    }
  }

  /**
   * A machine dies: what the task closed longer ago than that, and left alone since, is stored, whatever name it has, or
   * named. To be called where nothing went wrong before.
   */
  dies(boundMs: number): void {
    const beforeMs = this.#options.nowMs() - boundMs;
    const bodies = new Set(this.#options.keys().map((key) => this.#options.objectAt(key)));
    for (const [content, closed] of this.#closed) {
      // What programs have made anew under another name is no longer needed.
      if (closed.atMs > beforeMs || this.#lastOf.get(closed.state?.file ?? closed.path) !== closed) continue;
      if (!bodies.has(content) && !this.#isNamed(closed.path))
        this.#find(
          'lost-before-death',
          `${shown(closed)} was closed ${(closed.atMs / 1000).toFixed(3)} s, and is nowhere`,
        );
    }
  }

  /** Records that name what is not there. */
  missing(): void {
    const newest = this.#newestRecord();
    if (newest === undefined) return;
    for (const { path, key, md5 } of newest.results)
      if (this.#options.objectAt(key) === undefined)
        this.#find('named-missing', `${path}: ${key} (${md5}) is not there`);
    for (const { members, attempt, generation } of newest.generations)
      for (const { key } of members)
        if (this.#options.objectAt(key) === undefined)
          this.#find('named-missing', `set ${attempt}-${generation}: ${key} is not there`);
  }

  #newestRecord(): CaptureRecord | undefined {
    return [...this.#records].toSorted(([a], [b]) => (a < b ? -1 : 1)).at(-1)?.[1];
  }

  /** The newest record names something that is not stored whole. */
  hasLeft(): boolean {
    return (this.#newestRecord()?.left.length ?? 0) > 0;
  }

  /** The newest record says that it does not have this file as it was closed last. */
  #isNamed(path: string): boolean {
    const newest = this.#newestRecord();
    const lacking = newest?.generations.flatMap((one) => one.lacking ?? []) ?? [];
    return [...(newest?.left ?? []), ...lacking].some((one) => one.path === path);
  }

  fail(rule: string, what: string): void {
    this.#find(rule, what);
  }

  #recorded(key: string, text: string): void {
    const record = parseRecord(text);
    if ('invalid' in record) return;
    this.#records.set(key, record);
    this.#newestAttempt = Math.max(this.#newestAttempt, record.attempt);
    this.#claims.add(record.attempt);
    // A watch that dies after its last record is started again, and begins anew.
    if (this.#claims.size > this.#attempts && this.#options.plan.command === 'run')
      this.#find(
        'claimed-twice',
        `${this.#claims.size} attempts are claimed, and ${this.#attempts} have begun`,
      );
    // On its way when its machine died: nobody was told, and the next attempt has read what was there.
    this.#isLate = record.attempt < this.#newestAttempt;
    for (const { path, key: stored } of record.results) {
      const content = this.#options.objectAt(stored);
      const closed = content === undefined ? undefined : this.#closed.get(content);
      const before = this.#promised.get(path);
      if (!this.#isLate && closed !== undefined && closed.order > (before?.order ?? 0))
        this.#promised.set(path, closed);
    }
    for (const generation of record.generations) this.#judge(generation);
  }

  #judge(generation: Generation): void {
    const name = `${generation.attempt}-${generation.generation}`;
    const mark = markOf(generation);
    if (this.#judged.has(`${name} ${mark}`)) return;
    this.#judged.add(`${name} ${mark}`);
    const where =
      this.#options.plan.directory === undefined ? '' : `, in a ${this.#options.plan.directory} directory`;
    this.#count(mark === '' ? `good set: ${generation.proof}${where}` : `set that is ${mark}${where}`);
    // What it did not hear of it calls good as long as nobody dies (docs/semantics.md: unknown).
    if (mark !== '' && this.#isLauncherLost) this.#safeRounds.delete(name);
    if (mark !== '') return;
    const members = generation.members.map(({ path, key }) => ({
      path,
      content: this.#options.objectAt(key),
    }));
    // Of a machine that stood still, a record may come after its objects are gone.
    if (this.#isLate && members.some(({ content }) => content === undefined)) return;
    // In a directory all names are declared: a killed process may have left what it had not renamed yet.
    const torn = members.filter(
      ({ path, content }) => !path.endsWith('.tmp') && content !== undefined && !this.#closed.has(content),
    );
    // What it does not see, it cannot judge: nor can we say of which round such a member is.
    if (torn.length > 0 && this.isBlind) return;
    for (const { path, content = '' } of torn)
      this.#find('set-torn', `set ${name}: ${path} holds ${short(content)}`);
    // The task has found it so and vouches for it, as of a set that is marked incomplete.
    const isAsFound = ({ path, content }: (typeof members)[number]): boolean =>
      generation.proof === 'said' && content !== undefined && this.#found.get(path) === content;
    const states = members
      .filter((member) => !isAsFound(member))
      .flatMap(({ content }) => stateIn(content ?? '') ?? []);
    if (states.length > 0) this.#judgeRounds(name, generation, states);
  }

  /** `capture watch` sees no death of a task that nobody tells it of (docs/semantics.md). */
  get isBlind(): boolean {
    const { command, exitFile } = this.#options.plan;
    return command === 'watch' && exitFile !== 'always';
  }

  #judgeRounds(name: string, { members, proof }: Generation, states: readonly State[]): void {
    const { plan } = this.#options;
    // The task has ended with 0 with its files as they are.
    if (proof === 'end') return;
    const all = plan.files.filter(({ role }) => role === 'member');
    const told = states
      .map(({ file, round, version, versions }) => `${file}${round}${versions > 1 ? `.${version}` : ''}`)
      .join(' ');
    if (plan.rotates > 0) return this.#judgeRotating(name, all, states, told);
    const rounds = new Set(states.map(({ round }) => round));
    if (rounds.size > 1) return this.#find('set-mixed', `set ${name} is called good: ${told}`);
    const unfinished = states.filter(({ version, versions }) => version !== versions);
    // Of a single file each close is a whole set; and that the last file of a round is closed once more, closes cannot
    // tell (docs/semantics.md).
    const newest = Math.max(...states.map(({ serial }) => serial));
    const isLastAgain = proof === 'round' && unfinished.every(({ serial }) => serial === newest);
    if (proof !== 'single' && !isLastAgain && unfinished.length > 0)
      return this.#find('set-unfinished', `set ${name} is called good: ${told}`);
    if (members.length === all.length) this.#safe(name, states);
  }

  /** Several rounds may stand in one set; the newest must be whole, or not be there. */
  #judgeRotating(name: string, all: readonly FilePlan[], states: readonly State[], told: string): void {
    const newest = Math.max(...states.map(({ round }) => round));
    const ofNewest = states.filter(({ round }) => round === newest);
    const lacking = all.filter(({ name: file }) => !ofNewest.some((state) => state.file === file));
    if (lacking.length > 0) return this.#find('set-mixed-numbers', `set ${name} is called good: ${told}`);
    this.#safe(name, ofNewest);
  }

  #safe(name: string, states: readonly State[]): void {
    if (this.#isLate) return;
    this.#safeRounds.set(name, Math.max(...states.map(({ round }) => round)));
  }

  #generation(name: string): Generation | undefined {
    for (const record of this.#records.values())
      for (const one of record.generations) if (`${one.attempt}-${one.generation}` === name) return one;
    return undefined;
  }

  /** The result whose good key this is. */
  #goodPath(key: string): string | undefined {
    const file = this.#options.plan.files.find(
      ({ name, role }) => role === 'result' && key === `${name}.${INDEX}`,
    );
    return file === undefined ? undefined : nameIn(0, file, this.#options.plan);
  }

  #count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  #find(rule: string, what: string): void {
    this.findings.push({ rule, atMs: this.#options.nowMs(), what });
  }
}

function isGood(generation: Generation): boolean {
  return markOf(generation) === '';
}

/** Why it is not called good; '' if it is. */
function markOf({ suspect, incomplete, instant, unproven }: Generation): string {
  if (suspect === true) return 'suspect';
  if (incomplete === true) return 'incomplete';
  if (instant === true) return 'of an instant';
  return unproven === true ? 'unproven' : '';
}

function short(text: string): string {
  return text.length > 60 ? `${text.slice(0, 40)}... (${text.length})` : text;
}

function shown({ path, state }: Closed): string {
  return state === undefined ? path : `${path} of round ${state.round} (s${state.serial})`;
}
