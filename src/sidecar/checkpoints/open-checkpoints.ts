// Warns about each checkpoint file that the task keeps open and writes to, which is therefore never stored: otherwise
// the user would notice only when a restore lacks the file. Looks at intervals; changes nothing.
import type { FileFacts } from '../../model/file/file-state.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { formatMs } from '../../model/units.ts';
import { factsBeneath } from '../../native/files.ts';
import type { Files } from '../queue/files.ts';
import type { Unsaved } from '../queue/unsaved.ts';
import type { Needs } from '../run/context.ts';

const LOOK_EVERY_MS = 5000;
/** The interval while no file is open. */
const CALM_EVERY_MS = 30_000;
/** A file that is open for this long is named; sooner, if sets are committed without it. */
const OPEN_MS = 30_000;
const LEFT_OUT_MS = 10_000;
/**
 * A file that grows by this much between two looks is still being written for the first time, which may take a while.
 */
const FAST_BYTES = 2 ** 20;
const FAST_OPEN_MS = 300_000;
/** If there are many files, only this many are named. */
const MOST_NAMED = 3;

interface OpenCheckpointsParts {
  readonly context: Needs<'root' | 'manifest' | 'settings' | 'log' | 'now'>;
  readonly unsaved: Pick<Unsaved, 'look'>;
  readonly files: Pick<Files, 'get'>;
  /** The number of sets that were committed so far. */
  readonly committed: () => number;
}

interface Open {
  readonly sinceMs: number;
  /** How many sets were committed when the file was first seen open. */
  readonly committed: number;
  readonly facts: FileFacts;
  readonly isWritten: boolean;
  readonly isFast: boolean;
}

export class OpenCheckpoints {
  readonly #parts: OpenCheckpointsParts;
  readonly #open = new Map<RelPath, Open>();
  readonly #warned = new Set<RelPath>();
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: OpenCheckpointsParts) {
    this.#parts = parts;
  }

  /** Looks from now on. */
  begin(): void {
    if (this.#parts.context.settings.manifest.checkpoints.length === 0) return;
    this.#timer = setTimeout(
      () => {
        this.look();
        this.begin();
      },
      this.#open.size > 0 || this.#timer === undefined ? LOOK_EVERY_MS : CALM_EVERY_MS,
    );
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /** Warns once about each file that is open for too long. */
  look(): void {
    const { context, committed } = this.#parts;
    const nowMs = context.now();
    const there = new Map(this.#notStored());
    for (const path of this.#open.keys()) if (!there.has(path)) this.#open.delete(path);
    for (const [path, facts] of there) this.#note(path, facts, nowMs);
    const due = [...this.#open].filter(
      ([path, one]) => !this.#warned.has(path) && isDue(one, nowMs, committed()),
    );
    const [first] = due;
    if (first === undefined) return;
    for (const [path] of due) this.#warned.add(path);
    const named = due.slice(0, MOST_NAMED).map(([path]) => showPath(path));
    const more = due.length > named.length ? `, and ${due.length - named.length} more` : '';
    const isLeftOut = due.some(([, one]) => committed() > one.committed);
    const sets = isLeftOut ? ', and the checkpoints that are safe do not hold it' : '';
    context.log.warn(
      `${named.join(', ')}${more}: open for ${formatMs(nowMs - first[1].sinceMs)} and written to, but never closed. ` +
        `Nothing of it is stored${sets}`,
      {
        hint: 'close it after each checkpoint, or copy it and rename the copy; what only grows is for --companions',
      },
    );
  }

  *#notStored(): Generator<readonly [RelPath, FileFacts]> {
    const { context, unsaved, files } = this.#parts;
    for (const { path, open } of unsaved.look('checkpoint')) {
      if (!open || context.manifest.rolesOf(path).companion) continue;
      if (files.get(path, 'checkpoint')?.durable !== undefined) continue;
      const facts = factsBeneath(context.root, path);
      if (facts !== undefined) yield [path, facts];
    }
  }

  #note(path: RelPath, facts: FileFacts, nowMs: number): void {
    const before = this.#open.get(path);
    const isFast = before !== undefined && facts.size >= before.facts.size + FAST_BYTES;
    const isWritten = before !== undefined && (before.isWritten || facts.mtimeNs !== before.facts.mtimeNs);
    const { sinceMs, committed } = before ?? { sinceMs: nowMs, committed: this.#parts.committed() };
    this.#open.set(path, { sinceMs, committed, facts, isWritten, isFast });
  }
}

function isDue({ sinceMs, committed, isWritten, isFast }: Open, nowMs: number, commits: number): boolean {
  const limitMs = isFast ? FAST_OPEN_MS : commits > committed ? LEFT_OUT_MS : OPEN_MS;
  return isWritten && nowMs - sinceMs >= limitMs;
}
