// Tasks that send to one store: who may begin a push, and who comes next.
import { beforeEach, describe, expect, it } from 'vitest';
import { Places, type PushKind, type PushQuota } from '../../../src/sidecar/run/places.ts';

const SMALL: PushKind = { role: 'result', isLarge: false };
const LARGE: PushKind = { role: 'result', isLarge: true };
const CHECKPOINT: PushKind = { role: 'checkpoint', isLarge: true };

let places: Places;
/** Who began what, in order. */
let begun: string[];
beforeEach(() => {
  places = new Places();
  begun = [];
});

interface Task {
  readonly seat: PushQuota;
  readonly waiting: PushKind[];
  /** How many are under way. */
  held: number;
  /** Begins as many as have room. */
  pump(): void;
  end(kind: PushKind): void;
}

function task(name: string, ...waiting: readonly PushKind[]): Task {
  const seat = places.open(() => one.pump());
  const one: Task = {
    seat,
    waiting: [...waiting],
    held: 0,
    pump: () => {
      for (let next = one.waiting[0]; next !== undefined && seat.hasRoom(next); next = one.waiting[0]) {
        seat.take(next);
        one.held += 1;
        one.waiting.shift();
        begun.push(`${name} ${next.role}${next.isLarge ? ' large' : ''}`);
      }
    },
    end: (kind) => {
      one.held -= 1;
      seat.leave(kind);
      one.pump();
    },
  };
  return one;
}

const many = (count: number, kind: PushKind): readonly PushKind[] =>
  Array.from({ length: count }, () => kind);

describe('a task alone', () => {
  it('has 32 pushes under way, and 8 of large files', () => {
    const small = task('a', ...many(100, SMALL));
    small.pump();
    expect(small.held).toBe(32);
    small.waiting.splice(0);
    small.seat.close();
    for (let n = 0; n < 32; n += 1) small.end(SMALL);
    const large = task('b', ...many(100, LARGE));
    large.pump();
    expect(large.held).toBe(8);
  });

  it('is notified when there is room again', () => {
    const a = task('a', ...many(33, SMALL));
    a.pump();
    expect([a.held, a.seat.waits('result'), a.seat.waits('checkpoint')]).toEqual([32, true, false]);
    a.seat.leave(SMALL);
    expect(a.waiting).toEqual([]);
    expect(a.seat.waits('result')).toBe(false);
  });
});

describe('of several tasks', () => {
  it('results leave room for a checkpoint, small or large', () => {
    const a = task('a', ...many(20, LARGE));
    const b = task('b', ...many(100, SMALL));
    const c = task('c', CHECKPOINT);
    a.pump();
    b.pump();
    c.pump();
    expect([a.held, b.held, c.held]).toEqual([4, 24, 1]);
  });

  it('a small result takes its turn with the checkpoints of another task', () => {
    const small: PushKind = { role: 'checkpoint', isLarge: false };
    const a = task('a', ...many(500, small));
    const b = task('b', SMALL);
    a.pump();
    b.pump();
    expect([a.held, b.held]).toEqual([32, 0]);
    a.end(small);
    expect([a.held, b.held]).toEqual([31, 1]);
  });

  it('endless checkpoints leave room for large results of another task', () => {
    const a = task('a', ...many(20, CHECKPOINT));
    const b = task('b', ...many(20, LARGE));
    a.pump();
    expect(a.held).toBe(6);
    b.pump();
    expect([a.held, b.held]).toEqual([6, 2]);
  });

  it('large results leave room for those of another task, and the task with the fewest comes next', () => {
    const a = task('a', ...many(20, LARGE), ...many(20, SMALL));
    const b = task('b', ...many(20, LARGE));
    const c = task('c', ...many(8, SMALL), LARGE, LARGE);
    a.pump();
    b.pump();
    c.pump();
    expect([a.held, b.held, c.held]).toEqual([4, 2, 9]);
    a.end(LARGE);
    expect([a.held, b.held, c.held]).toEqual([3, 2, 9]);
    a.end(LARGE);
    expect([a.held, b.held, c.held]).toEqual([2, 2, 10]);
  });

  it('a task that comes later may begin one large result, even if another one holds all places for them', () => {
    const first = task('a', ...many(20, LARGE));
    first.pump();
    expect(first.held).toBe(8);
    const others = Array.from({ length: 10 }, (_, n) => task(`b${n}`, LARGE, LARGE));
    for (const one of others) one.pump();
    expect(others.map(({ held }) => held)).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
  });

  it('the task with the fewest pushes under way comes first: two with very much to send share evenly', () => {
    const a = task('a', ...many(500, SMALL));
    const b = task('b', ...many(500, SMALL));
    a.pump();
    b.pump();
    expect([a.held, b.held]).toEqual([28, 0]);
    for (let n = 0; n < 100; n += 1) (a.held >= b.held ? a : b).end(SMALL);
    expect(Math.abs(a.held - b.held)).toBeLessThanOrEqual(1);
    expect(a.held + b.held).toBe(28);
  });

  it('the results of a task that must stop soon come before all other results, and need not leave room', () => {
    const a = task('a', ...many(500, SMALL));
    const b = task('b', ...many(20, LARGE));
    a.pump();
    b.seat.hurry(true);
    b.pump();
    expect([a.held, b.held]).toEqual([28, 4]);
    for (let n = 0; n < 10; n += 1) a.end(SMALL);
    expect([a.held, b.held]).toEqual([20, 8]);
  });

  it('a task that ends leaves its room to the others', () => {
    const a = task('a', ...many(100, SMALL));
    const b = task('b', ...many(100, SMALL));
    a.pump();
    b.pump();
    a.waiting.splice(0);
    a.seat.close();
    for (let n = 0; n < 28; n += 1) a.seat.leave(SMALL);
    expect(b.held).toBe(32);
  });

  it('a push that must go at once goes without room, and counts', () => {
    const a = task('a', ...many(100, SMALL));
    a.pump();
    a.seat.take(CHECKPOINT);
    a.seat.leave(SMALL);
    expect(a.held).toBe(32);
    expect(a.seat.hasRoom(SMALL)).toBe(false);
  });
});
