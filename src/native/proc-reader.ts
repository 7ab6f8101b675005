// Reads what /proc says about single processes, again and again at little cost. Its files are kept open: reading an
// open one takes a third of the time. If the process has ended, its open files fail, even if another process has its
// pid now.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { parseStat, type ProcessStat, processTable, shareOfOpenFiles } from './processes.ts';

/** A process, and the children of all of its threads (proc_pid_task(5)). */
export interface ProcessFacts extends ProcessStat {
  /** Undefined if the kernel does not list them (no CONFIG_PROC_CHILDREN). */
  readonly children: readonly number[] | undefined;
}

/**
 * A process takes two descriptors, and one for each further thread. Beyond this limit, files are opened for each read.
 */
const MOST_KEPT_OPEN = 128;

const PAGE_BYTES = 4096;
/** The kernel returns a page at a time, filled with whole entries: a shorter read is the end (seq_file). */
const FULL_BYTES = PAGE_BYTES - 32;

interface Kept {
  readonly stat: number;
  /** By thread. */
  readonly children: Map<number, number>;
}

export class ProcReader {
  readonly #kept = new Map<number, Kept>();
  readonly #most = shareOfOpenFiles(MOST_KEPT_OPEN);
  /** Descriptors that are open now. */
  #open = 0;
  #bytes = Buffer.allocUnsafeSlow(2 * PAGE_BYTES);

  /**
   * Undefined if the process is gone, or hidden from us. Children are read first: if one is missing because the process
   * has just waited for it, `childFaults` has risen. `mainOnly`: the other threads start no processes.
   */
  read(pid: number, mainOnly = false): ProcessFacts | undefined {
    const kept = this.#kept.get(pid);
    if (kept !== undefined) {
      const facts = this.#tryRead(pid, kept, mainOnly);
      if (facts !== undefined) return facts;
      this.#forget(pid, kept);
    }
    let opened: Kept;
    try {
      opened = { stat: fs.openSync(`/proc/${pid}/stat`, 'r'), children: new Map() };
      this.#open += 1;
    } catch (error) {
      if (errnoOf(error) === undefined) throw error;
      return undefined;
    }
    const facts = this.#tryRead(pid, opened, mainOnly);
    if (facts === undefined || this.#open > this.#most) this.#forget(pid, opened);
    else this.#kept.set(pid, opened);
    return facts;
  }

  /** Closes the files of all processes but these. */
  keepOnly(pids: { has(pid: number): boolean }): void {
    for (const [pid, kept] of this.#kept) if (!pids.has(pid)) this.#forget(pid, kept);
  }

  close(): void {
    this.keepOnly(new Set());
  }

  #tryRead(pid: number, kept: Kept, mainOnly: boolean): ProcessFacts | undefined {
    try {
      const main = this.#children(pid, pid, kept);
      const stat = parseStat(this.#readAll(kept.stat));
      if (mainOnly || stat.threads <= 1) return { ...stat, children: main };
      const threads = fs.readdirSync(`/proc/${pid}/task`).map(Number);
      for (const [thread, fd] of kept.children) {
        if (threads.includes(thread)) continue;
        this.#close(fd);
        kept.children.delete(thread);
      }
      const lists = threads.map((thread) => this.#children(pid, thread, kept));
      const children = lists.includes(undefined) ? undefined : lists.flatMap((list) => list ?? []);
      return { ...parseStat(this.#readAll(kept.stat)), children };
    } catch (error) {
      if (errnoOf(error) === undefined) throw error;
      return undefined;
    }
  }

  #children(pid: number, thread: number, kept: Kept): readonly number[] | undefined {
    const known = kept.children.get(thread);
    if (known !== undefined) return pidsIn(this.#readAll(known));
    let fd: number;
    try {
      fd = fs.openSync(`/proc/${pid}/task/${thread}/children`, 'r');
      this.#open += 1;
    } catch (error) {
      if (errnoOf(error) === undefined) throw error;
      // Either the thread has just ended and has no children, or the kernel lists none.
      return fs.existsSync(`/proc/${pid}/task/${thread}`) ? undefined : [];
    }
    const mayStay = this.#open <= this.#most;
    if (mayStay) kept.children.set(thread, fd);
    try {
      return pidsIn(this.#readAll(fd));
    } finally {
      if (!mayStay) this.#close(fd);
    }
  }

  #readAll(fd: number): string {
    let length = 0;
    for (;;) {
      const more = fs.readSync(fd, this.#bytes, length, this.#bytes.length - length, length);
      length += more;
      if (more < FULL_BYTES) return this.#bytes.toString('latin1', 0, length);
      if (length + PAGE_BYTES > this.#bytes.length)
        this.#bytes = Buffer.concat([this.#bytes, Buffer.alloc(length)]);
    }
  }

  #forget(pid: number, { stat, children }: Kept): void {
    this.#kept.delete(pid);
    for (const fd of [stat, ...children.values()]) this.#close(fd);
  }

  #close(fd: number): void {
    fs.closeSync(fd);
    this.#open -= 1;
  }
}

/** Our own children, of all threads, with zombies; none without /proc. */
export function childPids(): readonly number[] {
  const reader = new ProcReader();
  const children = reader.read(process.pid)?.children;
  reader.close();
  return (
    children ?? [...processTable()].flatMap(([pid, { parent }]) => (parent === process.pid ? [pid] : []))
  );
}

/** Adds a process and all of its descendants, without the subtrees of the pids in `without`. */
export function addTree(
  found: Map<number, ProcessFacts>,
  root: number,
  without: ReadonlySet<number> = new Set(),
): void {
  const reader = new ProcReader();
  const visit = (pid: number): void => {
    if (without.has(pid) || found.has(pid)) return;
    const facts = reader.read(pid);
    if (facts === undefined) return;
    found.set(pid, facts);
    facts.children?.forEach(visit);
  };
  visit(root);
  reader.close();
}

function pidsIn(text: string): readonly number[] {
  return text.split(' ').flatMap((word) => (word === '' ? [] : [Number(word)]));
}
