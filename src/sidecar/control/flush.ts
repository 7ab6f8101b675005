// Makes everything durable that is closed so far, while the task runs: hurries the files, waits for their pushes and
// for a complete checkpoint set, and writes the record. If the task itself asks, the files that it has closed count as
// whole.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../../model/errors.ts';
import { lostBehindLinks, TO_STORE } from '../../model/file/behind-link.ts';
import { whyLeft } from '../../model/file/decide.ts';
import type { FileRole, FileState } from '../../model/file/file-state.ts';
import type { OpenFile } from '../../model/format/control.ts';
import type { LeftFile, StoredFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { whileLinked } from '../../model/waiting.ts';
import type { WorkDir } from '../../native/beneath.ts';
import { writerOf } from '../../native/files.ts';
import type { BehindLink } from '../../watch/linked-directories.ts';
import type { Watcher } from '../../watch/watching.ts';
import type { Companions } from '../checkpoints/companions.ts';
import type { Covered, Generations } from '../checkpoints/generations.ts';
import type { Need } from '../queue/file-states.ts';
import type { Files } from '../queue/files.ts';
import type { Recorder } from '../queue/recorder.ts';
import type { Staged } from '../queue/staged.ts';
import type { Unsaved } from '../queue/unsaved.ts';
import type { Needs } from '../run/context.ts';

type FlushContext = Needs<'root' | 'manifest' | 'startedAt' | 'ledger' | 'signal' | 'now'>;

/** While a flush waits for files, the stored ones are recorded this often. */
const RECORD_EVERY_MS = 2000;
/** Pause before a record that could not be written is retried. */
const RECORD_RETRY_MS = 500;

export interface FlushParts {
  readonly context: FlushContext;
  readonly files: Files;
  readonly generations: Generations;
  readonly recorder: Recorder;
  readonly companions: Companions;
  readonly unsaved: Unsaved;
  readonly staged: Pick<Staged, 'settled' | 'due'>;
  readonly watcher: Watcher;
}

/** The state when the flush is over, or when its signal aborts. */
interface FlushEnd {
  /** Files that were closed before, and are not both durable and recorded. */
  readonly left: readonly LeftFile[];
  /** Why the checkpoint files are not a complete set yet. */
  readonly incomplete: string | undefined;
  /** Files that the task holds open, except those that were captured in their present state. */
  readonly open: readonly OpenFile[];
}

/** One moment, shared by all flushes that are requested before the next close. */
interface Pass {
  readonly atCloses: number;
  readonly vouched: boolean;
  readonly need: Need;
  readonly stop: AbortController;
  readonly done: Promise<void>;
  waiters: number;
  covered: Covered;
  /** True if the content of companions is stored. */
  captured: boolean;
  /** Results that are stored, but that no record names yet. */
  unrecorded: readonly StoredFile[];
  /** Declared files behind links to directories; undefined until they were looked for. */
  behindLinks: readonly BehindLink[] | undefined;
}

export class Flush {
  readonly #parts: FlushParts;
  #newest: Pass | undefined;

  constructor(parts: FlushParts) {
    this.#parts = parts;
  }

  /**
   * Does not reject before its signal aborts. `vouched`: the task itself asks, which says that the files it has closed
   * are whole: whatever happens to the task, these closes do not come from a dying process. Only the task can say so.
   */
  async now(signal: AbortSignal, vouched = true): Promise<FlushEnd> {
    const parts = this.#parts;
    await hearAll(parts, signal, vouched);
    if (this.#newest?.atCloses !== parts.files.closes || (vouched && !this.#newest.vouched))
      this.#newest = begin(parts, vouched);
    const pass = this.#newest;
    pass.waiters += 1;
    await Promise.race([pass.done, abortOf(signal)]);
    const end = endOf(parts, pass);
    pass.waiters -= 1;
    if (pass.waiters === 0) {
      pass.stop.abort();
      pass.need.close();
      if (this.#newest === pass) this.#newest = undefined;
    }
    return end;
  }
}

/** Every close before this call is known to `files` after it. */
async function hearAll(
  { watcher, files, context }: FlushParts,
  signal: AbortSignal,
  vouched: boolean,
): Promise<void> {
  watcher.drainNow();
  // A scan may find files that were closed after the call: the task has not vouched for those.
  if (vouched) files.vouch((fileState) => isAtRest(context.root, fileState));
  if (!watcher.missesCloses()) return;
  for await (const found of watcher.scan(signal))
    for (const { path, facts } of found) files.closed(path, 'scan', context.now(), { fingerprint: facts });
}

/**
 * True if nobody is writing the file, so that the task can vouch for it. Without a lease, a file that a scan found may
 * still be open. If a file is gone, only its stored content is left.
 */
function isAtRest(root: WorkDir, { path, lastClose }: FileState): boolean {
  try {
    const writer = writerOf(root, path);
    return writer === 'none' || (writer === 'unknown' && lastClose?.how === 'close');
  } catch (error) {
    return errnoOf(error) === 'ENOENT';
  }
}

function begin(parts: FlushParts, vouched: boolean): Pass {
  const stop = new AbortController();
  const pass: Pass = {
    atCloses: parts.files.closes,
    vouched,
    need: parts.files.needAll(),
    stop,
    waiters: 0,
    covered: { kind: 'late' },
    captured: false,
    unrecorded: [],
    behindLinks: undefined,
    // Not before `pass` is defined.
    done: Promise.resolve().then(() =>
      whileLinked([stop.signal, parts.context.signal], (signal) => carryOut(parts, pass, signal)),
    ),
  };
  return pass;
}

async function carryOut(parts: FlushParts, pass: Pass, signal: AbortSignal): Promise<void> {
  const calm = parts.watcher.tellAtOnce();
  try {
    await Promise.all([
      store(parts, pass, signal),
      commit(parts, pass, signal),
      capture(parts, pass),
      lookBehindLinks(parts, pass, signal),
    ]);
  } finally {
    calm();
  }
}

/** Captures companions, and open results that are only appended to. */
async function capture({ generations }: FlushParts, pass: Pass): Promise<void> {
  pass.captured = await generations.captureNow();
}

/** As at the end of the run: what is behind them is not stored. */
async function lookBehindLinks(
  { context: { manifest, startedAt }, watcher }: FlushParts,
  pass: Pass,
  signal: AbortSignal,
): Promise<void> {
  const isLost = lostBehindLinks(manifest, TO_STORE);
  try {
    pass.behindLinks = await watcher.links.lost(isLost, Date.parse(startedAt), signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function commit({ generations }: FlushParts, pass: Pass, signal: AbortSignal): Promise<void> {
  const covered = await generations.covered(signal, pass.vouched);
  // A set that was committed before the task vouched for its files is recorded as unproven.
  while (pass.vouched && !(await generations.commits.recordProven())) {
    await retryPause(signal);
    if (signal.aborted) return;
  }
  pass.covered = covered;
}

async function store(parts: FlushParts, pass: Pass, signal: AbortSignal): Promise<void> {
  let isMet = false;
  do {
    const soon = AbortSignal.timeout(RECORD_EVERY_MS);
    isMet = await whileLinked([signal, soon], async (either) => {
      if (!(await pass.need.met(either))) return false;
      // Results that the task vouches for get their names.
      if (pass.vouched) await parts.staged.settled(either);
      return !either.aborted;
    });
    await record(parts, pass);
    if (isMet && pass.unrecorded.length > 0) await retryPause(signal);
  } while (!signal.aborted && (!isMet || pass.unrecorded.length > 0));
}

/** Records what is stored so far. */
async function record({ context: { ledger }, recorder }: FlushParts, pass: Pass): Promise<void> {
  pass.unrecorded = ledger.unrecorded();
  const left = (): Pass['unrecorded'] => pass.unrecorded.filter((file) => !ledger.isRecorded(file));
  // The first write may join a record that was begun before the last of these files was stored.
  for (let n = 0; n < 2 && pass.unrecorded.length > 0; n += 1) {
    await recorder.now();
    pass.unrecorded = left();
  }
}

async function retryPause(signal: AbortSignal): Promise<void> {
  await sleep(RECORD_RETRY_MS, undefined, { signal }).catch(() => undefined);
}

async function abortOf(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

function endOf(parts: FlushParts, pass: Pass): FlushEnd {
  const { need, vouched, covered, captured, unrecorded, behindLinks } = pass;
  const { files, generations, companions, staged } = parts;
  const left = new Map(need.unmet().map((fileState) => [fileState.path, whyUnmet(fileState)]));
  const add = (path: RelPath, why: string): void => {
    if (!left.has(path)) left.set(path, why);
  };
  for (const { path, why } of files.tooMany.values()) add(path, why);
  if (covered.kind === 'late')
    for (const path of generations.members()) add(path, 'its set is not committed yet');
  if (vouched) for (const { file } of staged.due()) add(file.path, `it is stored only as ${file.key} yet`);
  for (const { path } of unrecorded) add(path, 'no record names it yet');
  if (!captured)
    for (const path of companions.known) add(path, 'it is open, and not stored as far as it is written');
  for (const { path, why } of behindLinks ?? [NOT_LOOKED]) add(path, why);
  return {
    left: [...left].map(([path, why]) => ({ path, why })),
    incomplete: covered.kind === 'incomplete' ? covered.lacks : undefined,
    open: openFiles(parts),
  };
}

const NOT_LOOKED: BehindLink = { path: '.', why: 'no time was left to look behind links to directories' };

function openFiles({ unsaved, companions }: FlushParts): readonly OpenFile[] {
  const captured = new Set(companions.current.map(({ path }) => path));
  const of = (role: FileRole): readonly RelPath[] =>
    unsaved
      .look(role)
      .filter(({ path, open }) => open && !captured.has(path))
      .map(({ path }) => path);
  return [
    ...of('checkpoint').map((path) => ({ path, checkpoint: true })),
    ...of('result').map((path) => ({ path, checkpoint: false })),
  ];
}

function whyUnmet(fileState: FileState): string {
  return (
    whyLeft(fileState, fileState.pushing ? 'it is being sent' : 'it waits to be sent') ?? 'it is not stored'
  );
}
