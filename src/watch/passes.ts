// Walks over the whole tree, one at a time: after lost events, and repeatedly where events are not enough; and what
// they remember. A request during a walk causes one more walk, because the walk may already have passed the place in
// question.
import { setTimeout } from 'node:timers/promises';
import type { Fingerprint } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';

/** `all`: report every file. `new`: report the files whose state differs from the one that was last seen. */
export type PassKind = 'all' | 'new';

export class Passes {
  readonly #run: (kind: PassKind, signal: AbortSignal) => Promise<void>;
  readonly #closing = new AbortController();
  readonly #requested = new Set<PassKind>();
  #running: Promise<void> | undefined;
  #repeating: Promise<void> | undefined;

  /** `run` makes one walk. */
  constructor(run: (kind: PassKind, signal: AbortSignal) => Promise<void>) {
    this.#run = run;
  }

  request(kind: PassKind): void {
    void this.#start(kind);
  }

  isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** Requests a `new` pass each time this long after the last one ended. A second call changes nothing. */
  repeat(everyMs: number): void {
    this.#repeating ??= this.#repeatForever(everyMs);
  }

  /** Stops the walk that is running, and waits until it has ended. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
    await this.#repeating;
  }

  #start(kind: PassKind): Promise<void> {
    if (!this.#closing.signal.aborted) this.#requested.add(kind);
    // Not at once: the walk may request the next one before its first pause.
    this.#running ??= Promise.resolve().then(() => this.#runAll());
    return this.#running;
  }

  async #runAll(): Promise<void> {
    const { signal } = this.#closing;
    for (const kind of this.#requested) {
      this.#requested.delete(kind);
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      await unlessClosed(this.#run(kind, signal), signal);
    }
    this.#running = undefined;
  }

  async #repeatForever(everyMs: number): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      await unlessClosed(setTimeout(everyMs, undefined, { signal }), signal);
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      if (!signal.aborted) await this.#start('new');
    }
  }
}

async function unlessClosed(work: Promise<void>, signal: AbortSignal): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/**
 * The last state that was seen of each file, so that a walk reports only new states. Kept only where walks are
 * repeated; with inotify on a local file system there is nothing to remember.
 */
export class LastSeen {
  readonly #states = new Map<RelPath, string>();
  readonly #there = new Set<RelPath>();

  /** False if this state was noted last. */
  isNew(path: RelPath, facts: Fingerprint): boolean {
    this.#there.add(path);
    return this.#states.get(path) !== stateOf(facts);
  }

  note(path: RelPath, facts: Fingerprint): void {
    this.#there.add(path);
    this.#states.set(path, stateOf(facts));
  }

  /** At the end of a walk: forgets the files that nobody looked up or noted since the end of the previous walk. */
  forgetGone(): void {
    for (const path of this.#states.keys()) if (!this.#there.has(path)) this.#states.delete(path);
    this.#there.clear();
  }
}

/** One short string instead of five: there may be 200,000 of them. */
function stateOf(facts: Fingerprint): string {
  return [facts.dev, facts.ino, facts.size, facts.mtimeNs, facts.ctimeNs].join(' ');
}
