// Whoever dies, and whenever we look: what a death closed is never called clean. A model of the kernel decides what
// each look can see; the order of its events is any order.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  evidenceOf,
  hasChanged,
  NO_PROCESSES,
  type Evidence,
  type ProcessTable,
  type ProcessSeen,
} from '../../../src/model/file/evidence.ts';

const alive = (more: Partial<ProcessSeen> = {}): ProcessSeen => ({
  startTicks: 1,
  life: 'alive',
  reaped: 0,
  ...more,
});
const look = (processes: Record<number, ProcessSeen>, isBlind = false): ProcessTable => ({
  processes: new Map(Object.entries(processes).map(([pid, seen]) => [Number(pid), seen])),
  isBlind,
  isRemote: false,
});

describe('between two looks', () => {
  const before = look({ 1: alive(), 2: alive({ reaped: 9 }) });

  it.each<[string, ProcessTable, boolean]>([
    ['nobody is born and nobody ends', before, false],
    ['a process is born', look({ 1: alive(), 2: alive({ reaped: 9 }), 3: alive() }), true],
    ['a process is gone', look({ 1: alive() }), true],
    ['another process has the pid', look({ 1: alive(), 2: alive({ startTicks: 7, reaped: 9 }) }), true],
    ['a process has become a zombie', look({ 1: alive(), 2: alive({ reaped: 9, life: 'dead' }) }), true],
    ['a parent has waited for a child', look({ 1: alive(), 2: alive({ reaped: 12 }) }), true],
  ])('%s: that is a change, or not', (_, now, isChange) => {
    expect(hasChanged(before, now)).toBe(isChange);
  });

  it('who is exiting will soon have ended: that is a change each time', () => {
    const exiting = look({ 1: alive({ life: 'exiting' }) });
    expect(hasChanged(exiting, exiting)).toBe(true);
  });

  it.each<[string, ProcessTable, Evidence]>([
    ['nothing has changed: closes are clean', before, 'clean'],
    [
      'a process is new: closes are clean',
      look({ 1: alive(), 2: alive({ reaped: 9 }), 3: alive() }),
      'clean',
    ],
    ['a process is gone: closes are doubtful', look({ 1: alive() }), 'doubtful'],
    [
      'a process is exiting: closes are doubtful',
      look({ 1: alive(), 2: alive({ reaped: 9, life: 'exiting' }) }),
      'doubtful',
    ],
    [
      'a process is a zombie: closes are doubtful',
      look({ 1: alive(), 2: alive({ reaped: 9, life: 'dead' }) }),
      'doubtful',
    ],
    [
      'another process has the pid: closes are doubtful',
      look({ 1: alive(), 2: alive({ startTicks: 7, reaped: 9 }) }),
      'doubtful',
    ],
    [
      'a parent has waited for a child: closes are doubtful',
      look({ 1: alive(), 2: alive({ reaped: 12 }) }),
      'doubtful',
    ],
    [
      'a new process has waited for a child: closes are doubtful',
      look({ 1: alive(), 2: alive({ reaped: 9 }), 3: alive({ reaped: 1 }) }),
      'doubtful',
    ],
    [
      'a new process is a zombie: closes are doubtful',
      look({ 1: alive(), 2: alive({ reaped: 9 }), 3: alive({ life: 'dead' }) }),
      'doubtful',
    ],
    [
      'somebody may not be seen: nobody knows',
      look({ 1: alive(), 2: alive({ reaped: 9 }) }, true),
      'unknown',
    ],
    [
      'a death is seen although others may not be: closes are doubtful',
      look({ 1: alive() }, true),
      'doubtful',
    ],
  ])('%s', (_, now, evidence) => {
    expect(evidenceOf(before, now)).toBe(evidence);
  });

  it('a zombie that nobody waits for counts once', () => {
    const zombie = look({ 1: alive(), 2: alive({ life: 'dead' }) });
    expect(evidenceOf(look({ 1: alive(), 2: alive() }), zombie)).toBe('doubtful');
    expect(evidenceOf(zombie, zombie)).toBe('clean');
  });

  it('who is still exiting counts again, as it may have closed more', () => {
    const exiting = look({ 1: alive(), 2: alive({ life: 'exiting' }) });
    expect(evidenceOf(exiting, exiting)).toBe('doubtful');
  });
});

/** The kernel as far as it matters: who is whose child, what waits in the queue. */
class Kernel {
  readonly #all = new Map<
    number,
    { parent: number; life: ProcessSeen['life']; reaped: number; born: number }
  >();
  #clock = 0;
  /** Closes that were not read: true for a death's. */
  queue: boolean[] = [];

  constructor() {
    this.#all.set(1, { parent: 0, life: 'alive', reaped: 0, born: 0 });
  }

  of(life: ProcessSeen['life']): readonly number[] {
    return [...this.#all].filter(([pid, one]) => pid !== 1 && one.life === life).map(([pid]) => pid);
  }

  /** Pids are used again as soon as they are free. */
  fork(parent: number): void {
    let pid = 2;
    while (this.#all.has(pid)) pid += 1;
    this.#clock += 1;
    this.#all.set(pid, { parent, life: 'alive', reaped: 0, born: this.#clock });
  }

  close(): void {
    this.queue.push(false);
  }

  /** exit(2): PF_EXITING first, then the files, then a zombie whose children the launcher adopts. */
  die(pid: number): void {
    const one = this.#all.get(pid);
    if (one === undefined || one.life === 'dead') return;
    if (one.life === 'alive') one.life = 'exiting';
    else {
      one.life = 'dead';
      for (const child of this.#all.values()) if (child.parent === pid) child.parent = 1;
    }
  }

  closeOfDeath(): void {
    this.queue.push(true);
  }

  /** wait(2), of a zombie by its parent. */
  reap(pid: number): void {
    const one = this.#all.get(pid);
    const parent = this.#all.get(one?.parent ?? -1);
    if (one?.life !== 'dead' || parent?.life !== 'alive') return;
    this.#all.delete(pid);
    parent.reaped += 1 + one.reaped;
  }

  look(): ProcessTable {
    const seen = [...this.#all].map(
      ([pid, { life, reaped, born }]) => [pid, { startTicks: born, life, reaped }] as const,
    );
    return { processes: new Map(seen), isBlind: false, isRemote: false };
  }
}

describe('whatever the task’s processes do, and whenever they are looked at', () => {
  const act = fc.tuple(
    fc.constantFrom('fork', 'close', 'die', 'torn', 'reap', 'kill', 'kill', 'read', 'glance', 'glance'),
    fc.nat({ max: 5 }),
  );
  /** As the watcher does it: read, look, and after a death read again. Calls back with each close. */
  function run(
    acts: readonly (readonly [string, number])[],
    onClose: (isDeath: boolean, said: Evidence) => void,
  ) {
    const kernel = new Kernel();
    let before = kernel.look();
    for (const [what, n] of acts) {
      const pick = (life: ProcessSeen['life']): number =>
        kernel.of(life)[n % Math.max(1, kernel.of(life).length)] ?? -1;
      switch (what) {
        case 'fork':
          kernel.fork(kernel.of('alive')[n] ?? 1);
          break;
        case 'close':
          kernel.close();
          break;
        case 'die':
          kernel.die(n % 2 === 0 ? pick('alive') : pick('exiting'));
          break;
        case 'torn':
          if (kernel.of('exiting').length > 0) kernel.closeOfDeath();
          break;
        case 'reap':
          kernel.reap(pick('dead'));
          break;
        case 'kill': {
          const pid = pick('alive');
          if (pid === -1) break;
          kernel.die(pid);
          kernel.closeOfDeath();
          kernel.die(pid);
          if (n > 0) kernel.reap(pid);
          break;
        }
        default: {
          // Part of the queue only: more may have come than one reading takes.
          const batch = kernel.queue.splice(0, what === 'glance' ? 1 : Infinity);
          if (batch.length === 0) break;
          const now = kernel.look();
          const said = evidenceOf(before, now);
          before = now;
          if (said === 'doubtful') batch.push(...kernel.queue.splice(0));
          for (const isDeath of batch) onClose(isDeath, said);
        }
      }
    }
  }

  it('no close of a death is clean', () => {
    const saidOf = (acts: readonly (readonly [string, number])[]): ReadonlySet<Evidence> => {
      const ofDeaths = new Set<Evidence>(['doubtful']);
      run(acts, (isDeath, said) => void (isDeath && ofDeaths.add(said)));
      return ofDeaths;
    };
    fc.assert(
      fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
        expect([...saidOf(acts)]).toEqual(['doubtful']);
      }),
      { numRuns: 5000 },
    );
  });

  it('every close is clean while nobody dies', () => {
    const peaceful = act.filter(([what]) => what !== 'die' && what !== 'kill');
    fc.assert(
      fc.property(fc.array(peaceful, { maxLength: 60 }), (acts) => {
        run(acts, (_, said) => expect(said).toBe('clean'));
      }),
    );
  });

  it('the first look has nothing to compare with', () => {
    expect(evidenceOf(NO_PROCESSES, new Kernel().look())).toBe('clean');
  });
});
