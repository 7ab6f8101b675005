// A simulated task: carries out its rounds step by step while it lives. Each step is atomic. If it is resumed, it goes
// on after the round that it finds.
import { O } from '../machine/description.ts';
import type { SimProcess } from '../machine/process.ts';
import { theWorld } from '../machine/world.ts';
import { fileCalls } from '../replaced/file-calls.ts';
import { contentOf, type State, stateIn } from './content.ts';
import type { FilePlan, Plan, Round, Write } from './plan.ts';

/** What a task reports to the oracle. */
export interface Witnessed {
  /** The task has begun, and finds these contents in its work directory, by file. */
  begun(process: SimProcess, found: ReadonlyMap<string, string>): void;
  /** The task writes the file in place: from now on nobody can read the state that was closed. */
  opened(path: string): void;
  /** The task itself has closed the file, or renamed it into place, under this name. */
  closed(path: string, content: string): void;
  roundEnded(round: number): void;
  ended(process: SimProcess): void;
}

export interface TaskOptions {
  readonly plan: Plan;
  readonly nextSerial: () => number;
  readonly oracle: Witnessed;
  /** Called for a process that may outlive the task. */
  readonly onDaemon: (process: SimProcess) => void;
  /** Asks the sidecar to flush, then calls `then`. */
  readonly flush: (process: SimProcess, then: () => void) => void;
}

type Step = { readonly afterMs: number; readonly act: (then: () => void) => void };

/** Relative to the work directory. */
export function nameIn(round: number, { name, role }: FilePlan, plan: Plan): string {
  if (role === 'result') return name;
  if (plan.directory !== undefined) return `${directoryIn(round, plan)}/${name}`;
  return plan.rotates > 0 ? `${name}.${round}` : name;
}

function directoryIn(round: number, { rotates }: Plan): string {
  return rotates > 0 ? `ck.${round}` : 'ck';
}

const LONG_AGO_NS = 1_700_000_000_000_000_000n;
/** Where a program prepares the directory that it renames. */
const MADE = '.ck.tmp';
/** Where it keeps the directory before, until the new one is in place. */
const OLD = '.ck.old';

export function runTask(process: SimProcess, options: TaskOptions): void {
  const { plan, oracle } = options;
  const found = contentsIn(process);
  oracle.begun(process, found);
  const first = firstRound(plan, found);
  const rounds = plan.skipsPresent === true ? withoutPresent(plan, found) : plan.rounds;
  const steps = [
    step(0.01, () => openHeld(process, options)),
    ...stepsAfterCheckpoint(rounds[first - 2], first - 1, { process, options }),
    ...rounds.slice(first - 1).flatMap((round, n) => stepsOf(round, first + n, process, options)),
  ];
  carryOut(steps, process, () => {
    closeHeld(process, options);
    oracle.ended(process);
    theWorld().kernel.exit(process, 0);
  });
}

function carryOut(steps: readonly Step[], process: SimProcess, then: () => void): void {
  const world = theWorld();
  const next = (at: number): void => {
    const step = steps[at];
    if (step === undefined) return then();
    world.scheduler.at(world.nowMs + step.afterMs, process, () => step.act(() => next(at + 1)));
  };
  next(0);
}

/** The round after the newest complete one. */
function firstRound(plan: Plan, found: ReadonlyMap<string, string>): number {
  const members = plan.files.filter(({ role }) => role === 'member');
  for (let round = plan.rounds.length; members.length > 0 && round > 0; round -= 1) {
    const rounds = members.map((file) => stateIn(found.get(nameIn(round, file, plan)) ?? '')?.round ?? 0);
    // A program trusts what it finds.
    if (plan.rotates > 0 && rounds.every((one) => one === round)) return round + 1;
    if (plan.rotates === 0) return 1 + Math.max(0, Math.min(...rounds));
  }
  return 1;
}

/** The rounds without the results that are there. */
function withoutPresent({ rounds, files }: Plan, found: ReadonlyMap<string, string>): readonly Round[] {
  const present = new Set(
    files.filter(({ name, role }) => role === 'result' && found.has(name)).map(({ name }) => name),
  );
  return rounds.map((round) => ({ ...round, writes: round.writes.filter(({ file }) => !present.has(file)) }));
}

/** The contents of the files here, except in a directory that the program may have only begun. */
function contentsIn(process: SimProcess, below = ''): Map<string, string> {
  const names = fileCalls.readdir(process, `${process.cwd}/${below}`) as string[];
  const found = new Map<string, string>();
  for (const name of names) {
    const path = `${below}${name}`;
    const inode = theWorld().kernel.inodeAt(process, `${process.cwd}/${path}`, { follow: false });
    if (inode.kind === 'file') found.set(path, inode.data.toString());
    if (inode.kind === 'directory' && !name.startsWith('.'))
      for (const [inner, content] of contentsIn(process, `${path}/`)) found.set(inner, content);
  }
  return found;
}

function stepsOf(round: Round, number: number, process: SimProcess, options: TaskOptions): Step[] {
  const { plan } = options;
  const members = round.writes.filter(({ file }) => isMember(file, plan));
  const steps = round.writes.flatMap((write) => {
    const file = plan.files.find(({ name }) => name === write.file);
    if (file === undefined) return [];
    const own = stepsOfWrite(write, file, number, { process, options });
    if (plan.directory === undefined || file.role === 'result') return own;
    const first = write === members[0] ? [step(0.1, () => makeDirectory(number, process, plan))] : [];
    const last = write === members.at(-1) ? stepsOfDirectory(number, { process, options }) : [];
    return [...first, ...own, ...last];
  });
  const rotated = plan.rotates > 0 ? [step(0.1, () => rotate(number, process, plan))] : [];
  const flush: Step[] =
    round.flush === true ? [{ afterMs: 0.01, act: (then) => options.flush(process, then) }] : [];
  return [
    ...steps,
    step(0.05, () => options.oracle.roundEnded(number)),
    ...rotated,
    ...flush,
    step(round.pauseMs, () => undefined),
  ];
}

/**
 * A program that resumes repeats all that follows the checkpoint: results that it had written after it are written
 * again.
 */
function stepsAfterCheckpoint(round: Round | undefined, number: number, doer: Doer): Step[] {
  const { plan } = doer.options;
  const writes = round?.writes ?? [];
  const roles = new Map(plan.files.map(({ name, role }) => [name, role]));
  const last = writes.findLastIndex(({ file }) => roles.get(file) === 'member');
  return writes.slice(last + 1).flatMap((write) => {
    const file = plan.files.find(({ name }) => name === write.file);
    return file === undefined ? [] : stepsOfWrite(write, file, number, doer);
  });
}

function isMember(name: string, { files }: Plan): boolean {
  return files.some((file) => file.name === name && file.role === 'member');
}

function makeDirectory(round: number, process: SimProcess, plan: Plan): void {
  const name = plan.directory === 'renamed' ? MADE : directoryIn(round, plan);
  if (plan.directory === 'renamed') fileCalls.rm(process, `${process.cwd}/${MADE}`, ALL);
  fileCalls.mkdir(process, `${process.cwd}/${name}`, { recursive: true });
}

const ALL = { recursive: true, force: true } as const;

/** The directory is complete, and replaces the one before. */
function stepsOfDirectory(round: number, { process, options }: Doer): Step[] {
  const { plan, oracle } = options;
  if (plan.directory !== 'renamed') return [];
  const [made, place, old] = [
    `${process.cwd}/${MADE}`,
    `${process.cwd}/${directoryIn(round, plan)}`,
    `${process.cwd}/${OLD}`,
  ];
  const names = plan.files.filter(({ role }) => role === 'member').map((file) => nameIn(round, file, plan));
  return [
    step(0.05, () => {
      fileCalls.rm(process, old, ALL);
      if (!isThere(process, place)) return;
      for (const name of names) oracle.opened(name);
      fileCalls.rename(process, place, old);
    }),
    step(0.05, () => {
      fileCalls.rename(process, made, place);
      for (const name of names) oracle.closed(name, contentAt(process, `${process.cwd}/${name}`));
    }),
    step(0.05, () => fileCalls.rm(process, old, ALL)),
  ];
}

function rotate(round: number, process: SimProcess, plan: Plan): void {
  if (plan.directory !== undefined)
    return fileCalls.rm(process, `${process.cwd}/${directoryIn(round - plan.rotates, plan)}`, ALL);
  for (const file of plan.files.filter(({ role }) => role === 'member')) {
    const path = `${process.cwd}/${nameIn(round - plan.rotates, file, plan)}`;
    fileCalls.rm(process, path, { force: true });
  }
}

/** A daemon: its parent ends at once, and whoever adopts orphans becomes its parent (daemon(3)). */
function startDaemon(
  parent: SimProcess,
  options: TaskOptions,
  stepsIn: (process: SimProcess) => readonly Step[],
): void {
  const { kernel } = theWorld();
  const { environment } = parent;
  const between = kernel.spawn({ parent, name: 'task', environment });
  const daemon = kernel.spawn({ parent: between, name: 'daemon', environment });
  daemon.cwd = parent.cwd;
  kernel.exit(between, 0);
  kernel.reap(between);
  options.onDaemon(daemon);
  carryOut(stepsIn(daemon), daemon, () => kernel.exit(daemon, 0));
}

interface Doer {
  readonly process: SimProcess;
  readonly options: TaskOptions;
}

function stepsOfWrite(write: Write, file: FilePlan, round: number, doer: Doer): Step[] {
  const { process, options } = doer;
  if (write.daemon === true) {
    const itself = { ...write, daemon: false };
    const stepsIn = (daemon: SimProcess): readonly Step[] =>
      stepsOfWrite(itself, file, round, { process: daemon, options });
    return [step(0.1, () => startDaemon(process, options, stepsIn))];
  }
  const child = write.child === true ? [step(write.beforeMs / 2, () => comeAndGo(process))] : [];
  let text = '';
  const closes = Array.from({ length: write.versions }, (_, at) => {
    const makeText = (): string => {
      if (at === 0 || write.isSame !== true) text = textOf(write, file, { round, version: at + 1 }, doer);
      return text;
    };
    const toSteps = file.idiom === 'held' ? stepsOfEntry : stepsOfClose;
    return toSteps(write, file, { round, at, makeText }, doer);
  });
  return [...child, ...closes.flat()];
}

function textOf(
  { versions, isSame }: Write,
  file: FilePlan,
  { round, version }: Pick<State, 'round' | 'version'>,
  { process, options }: Doer,
): string {
  const { plan, nextSerial } = options;
  const before = texts.get(process) ?? new Map<string, readonly string[]>();
  texts.set(process, before);
  const [last = '', elder] = before.get(file.name) ?? [];
  const isBack = plan.returns === true && file.role === 'result' && !APPENDS.has(file.idiom);
  if (isBack && elder !== undefined && elder !== '' && theWorld().random.chance(0.5)) {
    before.set(file.name, [elder, last]);
    return elder;
  }
  const newest = isSame === true ? { version: 1, versions: 1 } : { version, versions };
  const text = contentOf({ file: file.name, round, ...newest, serial: nextSerial() }, file.fillBytes);
  before.set(file.name, [text, last]);
  return text;
}

/** What it wrote before stays in the file. */
export const APPENDS: ReadonlySet<FilePlan['idiom']> = new Set(['append', 'held']);

/** By process and file, the last two texts, the newest first. */
const texts = new WeakMap<SimProcess, Map<string, readonly string[]>>();

interface Close {
  readonly round: number;
  readonly at: number;
  readonly makeText: () => string;
}

/** By process, the descriptors of held files. */
const held = new WeakMap<SimProcess, ReadonlyMap<string, number>>();

function openHeld(process: SimProcess, { plan, oracle }: TaskOptions): void {
  const { kernel } = theWorld();
  const names = plan.files.filter(({ idiom }) => idiom === 'held').map(({ name }) => name);
  const open = (name: string): number => {
    oracle.opened(name);
    return kernel.open(process, `${process.cwd}/${name}`, O.WRONLY | O.CREAT | O.APPEND);
  };
  held.set(process, new Map(names.map((name) => [name, open(name)])));
}

function closeHeld(process: SimProcess, { oracle }: TaskOptions): void {
  for (const [name, fd] of held.get(process) ?? []) {
    const content = contentIn(process, fd);
    theWorld().kernel.close(process, fd);
    oracle.closed(name, content);
  }
}

/** Writes one entry, in two parts. */
function stepsOfEntry(write: Write, file: FilePlan, { at, makeText }: Close, { process }: Doer): Step[] {
  const append = (text: string): void => {
    const fd = held.get(process)?.get(file.name) ?? -1;
    theWorld().kernel.write(process, fd, Buffer.from(text), null);
  };
  let rest = '';
  return [
    step(at === 0 ? write.beforeMs : write.betweenMs, () => {
      const text = makeText();
      rest = text.slice(text.length / 2);
      append(text.slice(0, text.length / 2));
    }),
    step(write.openMs, () => append(rest)),
  ];
}

function stepsOfClose(
  write: Write,
  file: FilePlan,
  { round, at, makeText }: Close,
  { process, options }: Doer,
): Step[] {
  const { kernel } = theWorld();
  const name = nameIn(round, file, options.plan);
  // While the directory is not in place yet, only the program knows the file.
  const isHidden = options.plan.directory === 'renamed' && file.role === 'member';
  const path = `${process.cwd}/${isHidden ? `${MADE}/${file.name}` : name}`;
  const target = file.idiom === 'rename' ? path.replace(/[^/]*$/, '.$&.tmp') : path;
  const opened = (): void => (isHidden ? undefined : options.oracle.opened(name));
  const closed = (content: string): void => (isHidden ? undefined : options.oracle.closed(name, content));
  let fd = -1;
  let text = '';
  const flags = O.WRONLY | O.CREAT | (file.idiom === 'append' ? O.APPEND : O.TRUNC);
  const half = (): number => Math.floor(text.length / 2);
  const steps = [
    step(at === 0 ? write.beforeMs : write.betweenMs, () => {
      fd = kernel.open(process, target, flags);
      if (file.idiom !== 'rename') opened();
      text = makeText();
      kernel.write(process, fd, Buffer.from(text.slice(0, half())), null);
    }),
    step(write.openMs, () => void kernel.write(process, fd, Buffer.from(text.slice(half())), null)),
    step(0.02, () => {
      const content = contentIn(process, fd);
      kernel.close(process, fd);
      if (file.idiom !== 'rename') closed(content);
    }),
    ...(options.plan.putsTimesBack === true ? [step(0.02, () => putTimeBack(process, target))] : []),
  ];
  if (file.idiom !== 'rename') return steps;
  const rename = step(0.05, () => {
    fileCalls.rename(process, target, path);
    closed(contentAt(process, path));
  });
  return [...steps, rename];
}

function putTimeBack(process: SimProcess, path: string): void {
  const { kernel } = theWorld();
  const { dentry } = kernel.find(process, path, { follow: false });
  if (dentry !== undefined) kernel.files.setTime(dentry.inode, LONG_AGO_NS);
}

function isThere(process: SimProcess, path: string): boolean {
  return theWorld().kernel.find(process, path, { follow: false }).dentry !== undefined;
}

/** The content of an open file, whatever its name is by now. */
function contentIn(process: SimProcess, fd: number): string {
  const description = theWorld().kernel.description(process, fd);
  if (description.kind !== 'file') throw new Error(`descriptor ${fd} is no file`);
  return description.inode.data.toString();
}

function contentAt(process: SimProcess, path: string): string {
  return theWorld().kernel.inodeAt(process, path, { follow: false }).data.toString();
}

/** Starts a process of the task that writes nothing. */
function comeAndGo(parent: SimProcess): void {
  const { kernel, scheduler, random, nowMs } = theWorld();
  const child = kernel.spawn({ parent, name: 'true' });
  scheduler.at(nowMs + random.ms(1, 50), undefined, () => {
    kernel.exit(child, 0);
    if (parent.isAlive) scheduler.at(nowMs + 60, parent, () => kernel.reap(child));
  });
}

function step(afterMs: number, act: () => void): Step {
  return {
    afterMs,
    act: (then) => {
      act();
      then();
    },
  };
}
