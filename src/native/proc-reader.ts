// What /proc says of single processes, asked again and again at little cost: their files are kept open, as reading an
// open one takes a third of the time, and one of a process that has ended fails whoever has its pid now.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { parseStat, type ProcessStat, processTable, shareOfOpenFiles } from './processes.ts';

/** A process, and the children of its threads (proc_pid_task(5)). */
export interface ProcessFacts extends ProcessStat {
  /** Undefined when the kernel does not tell (no CONFIG_PROC_CHILDREN). */
  readonly children: readonly number[] | undefined;
}

/** Two for a process, and one for each thread more. Of a larger task the others are opened each time. */
const MOST_KEPT_OPEN = 128;

const PAGE_BYTES = 4096;
/** The kernel hands out a page at a time, as many whole entries as fit: less than that is the end (seq_file). */
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
   * Undefined when the process is gone, or hidden from us. Children are read before the rest: what a wait took off
   * the list meanwhile has raised the count of faults. `mainOnly`: its other threads start no processes.
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

  /** Closes what is kept open of other processes than these. */
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
      // A thread that has just ended has none, or a kernel that does not tell of any.
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

/** Our own children, of all threads, zombies too; empty without /proc. */
export function childPids(): readonly number[] {
  const reader = new ProcReader();
  const children = reader.read(process.pid)?.children;
  reader.close();
  return (
    children ?? [...processTable()].flatMap(([pid, { parent }]) => (parent === process.pid ? [pid] : []))
  );
}

/** Adds a process and all below it, but `self` and what that has started. */
export function addTree(found: Map<number, ProcessFacts>, root: number, self?: number): void {
  const reader = new ProcReader();
  const visit = (pid: number): void => {
    if (pid === self || found.has(pid)) return;
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
