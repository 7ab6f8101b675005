// Knows what the programs have closed, and when. Sees every object that the store gets and every file that is deleted,
// and reports what must never happen. It believes records only where they promise something.
import { createHash } from 'node:crypto';
import type { SimProcess } from '../machine/process.ts';
import { roundsIn, type State, stateIn } from '../program/content.ts';
import { APPENDS, nameIn } from '../program/task.ts';
import type { Fault, FilePlan, Plan } from '../program/plan.ts';
import { isCalm } from '../store/network.ts';
import {
  isLast,
  parseRecord,
  type CaptureRecord,
  type Generation,
} from '../../../src/model/format/records.ts';

export interface Finding {
  /** A name for what must never happen. */
  readonly rule: string;
  readonly atMs: number;
  readonly what: string;
}

interface Closed {
  readonly path: string;
  readonly state: State | undefined;
  readonly atMs: number;
  readonly order: number;
  /** The attempt of the schedule, from 1 on. */
  readonly attempt: number;
  /** The close before it with the same content. */
  readonly before?: Closed | undefined;
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
/** Exit statuses: the task was killed, or something could not be stored. */
const FAILURES: ReadonlySet<number> = new Set([70, 137, 143]);
/** The attempt did not begin: the store gave no answer to rely on. */
const UNAVAILABLE = 69;
const INTERNAL = 70;
const FENCED = 76;
/** Faults that leave the launcher and the sidecar time to store everything. */
const ORDERLY: ReadonlySet<Fault['kind']> = new Set(['term', 'task-dies']);
/** Has no place in the order of closes. */
const GONE = -1;
export const INDEX = '7';
export const TASK_NAME = 'sim';
/** A state that existed for less than this may be missed: the push before it may still have been under way. */
const BRIEFLY_MS = 1000;
const RECORDS = `.capture/${TASK_NAME}/${INDEX}/`;

interface UnderName {
  readonly text: string;
  readonly closed: Closed;
  readonly attempts: number;
}

export class Oracle {
  readonly findings: Finding[] = [];
  readonly #options: OracleOptions;
  /** What programs have closed themselves, by content: the last close with it. */
  readonly #closed = new Map<string, Closed>();
  /** The last close, by path. */
  readonly #lastClosed = new Map<string, Closed>();
  /** The newest state that a record names under its good key, by path. */
  readonly #promised = new Map<string, Closed>();
  /** The last close, by file, whatever its name was. */
  readonly #lastOf = new Map<string, Closed>();
  /** States that the program began to overwrite as soon as they were closed. */
  readonly #brief = new Set<Closed>();
  readonly #judged = new Set<string>();
  readonly #records = new Map<string, CaptureRecord>();
  #order = 0;
  /** Attempts of the schedule. */
  #attempts = 0;
  readonly #claims = new Set<number>();
  /** The state under a good key, its content, and how many attempts had begun when it came there. */
  readonly #underName = new Map<string, UnderName>();
  /** Generations that were called good, with their newest round: each later attempt may rely on them. */
  readonly #safeRounds = new Map<string, number>();
  #isLauncherLost = false;
  #newestAttempt = 0;
  /** Closes before the newest task began. */
  #begunAt = 0;
  /** Attempts whose end may be the fault of the task, or of the set that it began with. */
  #failures = 0;
  /** What was in the work directory before the newest task. */
  #found: ReadonlyMap<string, string> = new Map();
  /** capture has stopped a process that this attempt's task had left behind. */
  #hasStoppedDaemon = false;
  /** The record that is judged came after the claim of the next attempt. */
  #isLate = false;
  counts = new Map<string, number>();

  constructor(options: OracleOptions) {
    this.#options = options;
  }

  // --- what programs do

  /** `isGone`: on a machine whose index another attempt has taken over. */
  closed(path: string, content: string, isGone = false): void {
    const now = { path, state: stateIn(content), atMs: this.#options.nowMs(), attempt: this.#attempts };
    if (isGone) {
      if (!this.#closed.has(content)) this.#closed.set(content, { ...now, order: GONE });
      return;
    }
    const one = { ...now, order: (this.#order += 1), before: this.#closed.get(content) };
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
    // A machine that stalled at its start may not know yet that another one has the index.
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
    // Attempts fail twice from one set, then the set before it is tried (docs/semantics.md).
    if (round < safeRound && this.#failures < TRIES_EACH)
      this.#find('restored-elder', `${restored} has round ${round}, and ${safeRound} was safe`);
  }

  /** The number of closes by now. */
  get closes(): number {
    return this.#order;
  }

  /** `capture flush` has answered that all that was closed by then is stored and recorded. */
  flushed(closes: number): void {
    for (const { name, role } of this.#options.plan.files) {
      const last = this.#lastClosed.get(name);
      // The flush of this attempt does not know what an earlier one closed.
      if (role !== 'result' || last === undefined || last.order > closes || last.order <= this.#begunAt)
        continue;
      const there = this.#options.objectAt(`${name}.${INDEX}`);
      const stored = there === undefined ? undefined : this.#closed.get(there);
      // The task has not vouched for what a scan found after the kernel had dropped events.
      const isBeside = this.#overflows() && this.#isAnywhere(last);
      if ((stored?.order ?? GONE) < last.order && !isBeside)
        this.#find(
          'flush-lied',
          `${shown(last)} was closed before the flush, and ${name}.${INDEX} holds ${short(there ?? 'nothing')}`,
        );
      else if (!isBeside) this.#promised.set(name, last);
    }
  }

  /** Nobody sees how the task ends: its last closes may be called suspect (docs/semantics.md). */
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
    // The file was half written when a machine died, and the process that would have written it again was stopped
    // before. The task has ended with 0 beside it.
    if (closed === undefined && this.#hasStoppedDaemon && this.#found.get(path) === text) return;
    // A program that skips what is there vouches for it, except for what capture itself has called half-written.
    if (closed === undefined && this.#isSkipped(path, text) && !this.#isSuspect(path, text)) return;
    if (closed === undefined)
      return this.#find('good-name-torn', `${key} holds what nobody has closed: ${short(text)}`);
    this.#replaced(key, { text, closed, attempts: this.#attempts });
    const promised = this.#promised.get(path);
    // The request of a stalled machine may be on its way: what it replaces is stored again by the end.
    if (closed.order === GONE) return;
    if (promised !== undefined && closed.order < promised.order)
      this.#find('elder-after-younger', `${key} holds ${short(text)}, and ${shown(promised)} was recorded`);
  }

  /** The sidecar deletes a file of the task, so all of it must be stored. */
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

  /** What an earlier attempt stored under a good name must be kept, under another name. */
  #replaced(key: string, now: UnderName): void {
    const before = this.#underName.get(key);
    this.#underName.set(key, { ...now, closed: firstSince(now.closed, before?.closed.order) });
    // A stalled machine has no order with others.
    if (before === undefined || before.text === now.text || this.#freezes()) return;
    if (before.closed.attempt === now.closed.attempt) {
      // What a machine closed that was given up has no place in the order.
      if (now.closed.order !== GONE && now.closed.order < before.closed.order)
        this.#find(
          'elder-after-younger',
          `${key} holds ${short(now.text)}, and held ${shown(before.closed)}`,
        );
      return;
    }
    if (!this.#options.keys().some((one) => one !== key && this.#options.objectAt(one) === before.text))
      this.#find('replaced-silently', `${key}: ${short(before.text)} of an earlier attempt is nowhere else`);
  }

  /** The newest task has found the result in this state, and did not write it. */
  #isSkipped(path: string, text: string): boolean {
    return this.#options.plan.skipsPresent === true && this.#found.get(path) === text;
  }

  /** The newest task has found a part of the result that came with the checkpoint, and did not go on with it. */
  #hasSkippedPart(path: string, there = ''): boolean {
    const part = this.#found.get(path) ?? '';
    const isPart = part !== '' && stateIn(part) === undefined && there.startsWith(part);
    return this.#options.plan.skipsPresent === true && isPart;
  }

  /** A record says that this state of the result may be half-written. */
  #isSuspect(path: string, text: string): boolean {
    const sum = createHash('md5').update(text).digest('hex');
    return [...this.#records.values()].some(({ partials }) =>
      partials.some((one) => one.path === path && one.md5 === sum && one.suspect === true),
    );
  }

  /** True if the plan limits the wait for the store, at the end and at the start. */
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

  /** What stands under the result's good name was there before the newest attempt began. */
  #wasStoredBefore(name: string): boolean {
    return (this.#underName.get(`${name}.${INDEX}`)?.attempts ?? Infinity) < this.#attempts;
  }

  // --- at the end

  /** The launcher has ended with this status. */
  ended(status: number, { faults, hasStoppedDaemon }: Disturbance): void {
    if (FAILURES.has(status)) this.#failures += 1;
    const newest = this.#newestRecord();
    const isRecorded = newest !== undefined && isLast(newest.kind);
    // A stalled machine may have claimed the next attempt meanwhile.
    if (status === 0 && !this.#freezes() && !isRecorded)
      this.#find('done-unrecorded', `exit 0, and the newest record is ${newest?.kind ?? 'nowhere'}`);
    const isOrderly = !hasStoppedDaemon && faults.every(({ kind }) => ORDERLY.has(kind));
    if (status === UNAVAILABLE && isOrderly && this.#isReachable())
      this.#find('gave-up', 'the store refuses a request now and then, and the run did not begin');
    if (status === INTERNAL && isOrderly) this.#find('internal-error', `the run ended with ${status}`);
    // A watch that gets two stop signals does not wait for the end of the task.
    const isTwice =
      this.#options.plan.command === 'watch' && faults.filter(({ kind }) => kind === 'term').length > 1;
    if (isOrderly && !isTwice) this.#drained();
    // Another attempt has the index: nobody goes on from what this one has closed last.
    if (status === FENCED)
      for (const [path, { attempt }] of this.#lastClosed)
        if (attempt === this.#attempts) this.#lastClosed.delete(path);
    this.#saysWhatIsNamed();
    // If nobody reports the end of the task, 0 only says what became of what was seen.
    if (status !== 0 || this.isBlind || newest?.kind === 'ended') return;
    for (const { name, role } of this.#options.plan.files) {
      if (role !== 'result') continue;
      const last = this.#lastClosed.get(name);
      const there = this.#options.objectAt(`${name}.${INDEX}`);
      const stored = there === undefined ? undefined : this.#closed.get(there);
      const isTold = this.#isNamed(name) || newest?.results.some(({ path }) => path === name) === true;
      // A stalled machine may store it after that record, under a name that nobody else uses.
      const mustBeTold = isRecorded && (!this.#freezes() || this.#wasStoredBefore(name));
      if (stored !== undefined && mustBeTold && !isTold)
        this.#find(
          'stored-unrecorded',
          `exit 0, ${name}.${INDEX} is stored, and the last record does not say so`,
        );
      // If a leftover process was ended before this task began, an earlier attempt may have seen more of it.
      if (last === undefined || (hasStoppedDaemon && last.order <= this.#begunAt)) continue;
      this.#judgeAppended(name, there);
      // It was judged when it came there: a program may vouch for what it found.
      if (there !== undefined && stored === undefined) continue;
      if (this.#hasSkippedPart(name, there)) continue;
      // A machine that was given up may have gone on, and have written last.
      const isOfGone = stored?.order === GONE && stored.atMs >= last.atMs;
      if (stored?.order !== last.order && !isOfGone && !this.#isNamed(name))
        this.#find(
          'done-without-result',
          `exit 0, ${name}.${INDEX} holds ${short(there ?? 'nothing')}, and ${shown(last)} was closed last`,
        );
    }
  }

  /** Nobody writes again what was appended before a checkpoint: the result has it, or the record says what it lacks. */
  #judgeAppended(name: string, there = ''): void {
    const { files, rounds, skipsPresent } = this.#options.plan;
    const isAppended = files.some((file) => file.name === name && APPENDS.has(file.idiom));
    const ofResult = rounds.flatMap(({ writes }) => writes.filter(({ file }) => file === name));
    // A daemon may be stopped before it has written.
    const isLoose = skipsPresent === true || ofResult.some(({ daemon }) => daemon === true);
    if (!isAppended || isLoose || this.#isNamed(name)) return;
    // What an attempt has stored and a later one replaced is kept, with a warning.
    const kept = this.#options.keys().filter((key) => key.startsWith(`${name}.${INDEX}.~`));
    const has = roundsIn([there, ...kept.map((key) => this.#options.objectAt(key))].join(''));
    const lacks = rounds.flatMap(({ writes }, at) =>
      writes.some(({ file }) => file === name) && !has.has(at + 1) ? [at + 1] : [],
    );
    if (lacks.length > 0)
      this.#find(
        'lost-before-checkpoint',
        `exit 0, and ${name}.${INDEX} has nothing of round ${lacks.join()}`,
      );
  }

  /** True if the state is stored, whatever its name. */
  #isAnywhere(state: Closed): boolean {
    const { keys, objectAt } = this.#options;
    return keys().some((key) => this.#closed.get(objectAt(key) ?? '') === state);
  }

  /** True if requests are refused only now and then, and answered when they are retried. */
  #isReachable(): boolean {
    const { outages, deaf, silences, lateArrivals } = this.#options.plan.weather;
    return (
      outages.length + deaf.length + silences + lateArrivals === 0 && !this.#isHurried() && !this.#freezes()
    );
  }

  /** There was time, so what the task has closed must be stored, under whatever name. */
  #drained(): void {
    const { plan } = this.#options;
    // A stalled machine may have taken over the index.
    if (!isCalm(plan.weather) || this.#isHurried() || this.#freezes() || this.isBlind) return;
    const left = this.#newestRecord()?.left ?? [];
    for (const { name, role } of plan.files) {
      const last = this.#lastClosed.get(name);
      if (role !== 'result' || last === undefined || last.order <= this.#begunAt) continue;
      // It belongs to an attempt that was ended before its task began.
      if (last.attempt !== this.#attempts) continue;
      // A watch may begin while the task writes the file again.
      if (plan.command === 'watch' && this.#lastOf.get(name) !== last) continue;
      if (this.#brief.has(last)) continue;
      if (!this.#isAnywhere(last))
        this.#find('not-drained', `${shown(last)} was closed, nobody was in a hurry, and it is nowhere`);
      // In later attempts, what earlier ones have left may be named, too.
      else if (this.#attempts === 1 && left.some(({ path }) => path === name))
        this.#find('not-drained', `${shown(last)} is stored, and the record says that it is not`);
    }
  }

  /** The last record knows which results have their names, however little time there was. */
  #saysWhatIsNamed(): void {
    const newest = this.#newestRecord();
    // In later attempts, what earlier ones have left may be named, too.
    if (newest === undefined || !isLast(newest.kind) || this.#attempts > 1) return;
    if (!isCalm(this.#options.plan.weather) || this.#freezes() || this.isBlind) return;
    for (const { path, why } of newest.left) {
      if (!why.startsWith('it is stored only as')) continue;
      const last = this.#lastOf.get(path);
      const there = this.#options.objectAt(`${path}.${INDEX}`);
      if (last !== undefined && there !== undefined && this.#closed.get(there) === last)
        this.#find(
          'not-drained',
          `${path}.${INDEX} holds ${shown(last)}, and the record says that it does not`,
        );
    }
  }

  /**
   * A machine dies. What the task closed longer ago than `boundMs`, and has not touched since, must be stored under any
   * name, or be named. Call it only if nothing went wrong before.
   */
  dies(boundMs: number): void {
    const beforeMs = this.#options.nowMs() - boundMs;
    const bodies = new Set(this.#options.keys().map((key) => this.#options.objectAt(key)));
    for (const [content, closed] of this.#closed) {
      // What programs have written again under another name is no longer needed.
      if (closed.atMs > beforeMs || this.#lastOf.get(closed.state?.file ?? closed.path) !== closed) continue;
      if (!bodies.has(content) && !this.#isNamed(closed.path))
        this.#find(
          'lost-before-death',
          `${shown(closed)} was closed ${(closed.atMs / 1000).toFixed(3)} s, and is nowhere`,
        );
    }
  }

  /** Finds records that name objects that do not exist. */
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

  /** True if the newest record names something that is not stored completely. */
  hasLeft(): boolean {
    return (this.#newestRecord()?.left.length ?? 0) > 0;
  }

  /** True if the newest record says that the last close of this file is not stored. */
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
    // A watch that dies after its last record is restarted, and begins a new attempt.
    if (this.#claims.size > this.#attempts && this.#options.plan.command === 'run')
      this.#find(
        'claimed-twice',
        `${this.#claims.size} attempts are claimed, and ${this.#attempts} have begun`,
      );
    // The record was on its way when its machine died. Nobody was told, and the next attempt has read what was there.
    this.#isLate = record.attempt < this.#newestAttempt;
    for (const { path, key: stored } of record.results) {
      const content = this.#options.objectAt(stored);
      const closed = content === undefined ? undefined : this.#closed.get(content);
      const before = this.#promised.get(path);
      if (!this.#isLate && closed !== undefined && closed.order > (before?.order ?? 0))
        this.#promised.set(path, firstSince(closed, before?.order));
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
    // A record of a stalled machine may come after its objects are gone.
    if (this.#isLate && members.some(({ content }) => content === undefined)) return;
    // All names in a directory are declared: a killed process may have left files that it had not renamed yet.
    const torn = members.filter(
      ({ path, content }) => !path.endsWith('.tmp') && content !== undefined && !this.#closed.has(content),
    );
    // What capture does not see, it cannot judge, and we cannot say which round such a member belongs to.
    if (torn.length > 0 && this.isBlind) return;
    for (const { path, content = '' } of torn)
      this.#find('set-torn', `set ${name}: ${path} holds ${short(content)}`);
    // The task has found it like this and vouches for it, as for a set that is marked incomplete.
    const isAsFound = ({ path, content }: (typeof members)[number]): boolean =>
      generation.proof === 'said' && content !== undefined && this.#found.get(path) === content;
    const states = members
      .filter((member) => !isAsFound(member))
      .flatMap(({ content }) => stateIn(content ?? '') ?? []);
    if (states.length > 0) this.#judgeRounds(name, generation, states);
  }

  /** `capture watch` sees no death of a task if nobody reports it (docs/semantics.md). */
  get isBlind(): boolean {
    const { command, exitFile } = this.#options.plan;
    return command === 'watch' && exitFile !== 'always';
  }

  #judgeRounds(name: string, { members, proof }: Generation, states: readonly State[]): void {
    const { plan } = this.#options;
    // The task has ended with 0, and left its files like this.
    if (proof === 'end') return;
    const all = plan.files.filter(({ role }) => role === 'member');
    const told = states
      .map(({ file, round, version, versions }) => `${file}${round}${versions > 1 ? `.${version}` : ''}`)
      .join(' ');
    if (plan.rotates > 0) return this.#judgeRotating(name, all, states, told);
    const rounds = new Set(states.map(({ round }) => round));
    if (rounds.size > 1) return this.#find('set-mixed', `set ${name} is called good: ${told}`);
    const unfinished = states.filter(({ version, versions }) => version !== versions);
    // For a single file, each close is a complete set. Closes cannot tell that the last file of a round is closed once
    // more (docs/semantics.md).
    const newest = Math.max(...states.map(({ serial }) => serial));
    const isLastAgain = proof === 'round' && unfinished.every(({ serial }) => serial === newest);
    if (proof !== 'single' && !isLastAgain && unfinished.length > 0)
      return this.#find('set-unfinished', `set ${name} is called good: ${told}`);
    if (members.length === all.length) this.#safe(name, states);
  }

  /** A set may contain several rounds; the newest must be complete, or absent. */
  #judgeRotating(name: string, all: readonly FilePlan[], states: readonly State[], told: string): void {
    const newest = Math.max(...states.map(({ round }) => round));
    const ofNewest = states.filter(({ round }) => round === newest);
    // A plan that was made smaller may write fewer files in a round.
    const written = new Set(this.#options.plan.rounds[newest - 1]?.writes.map(({ file }) => file));
    const lacking = all.filter(
      ({ name: file }) => written.has(file) && !ofNewest.some((state) => state.file === file),
    );
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

  /** The result with this good key. */
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

/** The first close with this content that is not older than that: more than this one nobody knows of an object. */
function firstSince(closed: Closed, order = 0): Closed {
  let first = closed;
  while (first.before !== undefined && first.before.order >= order) first = first.before;
  return first;
}

function isGood(generation: Generation): boolean {
  return markOf(generation) === '';
}

/** Why a generation is not called good; '' if it is. */
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
