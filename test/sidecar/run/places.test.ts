// Tasks that send to one store: who may begin a push, and who comes next.
import { beforeEach, describe, expect, it } from 'vitest';
import { Places, type PushKind, type Seat } from '../../../src/sidecar/run/places.ts';

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
  readonly seat: Seat;
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

  it('is told once there is room for what had none', () => {
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
    expect([a.held, b.held, c.held]).toEqual([6, 22, 1]);
  });

  it('a checkpoint comes before a small result, and that before a large one', () => {
    const full = task('full', ...many(8, CHECKPOINT), ...many(24, { role: 'checkpoint', isLarge: false }));
    full.pump();
    expect(full.held).toBe(32);
    const large = task('a', LARGE);
    const small = task('b', SMALL);
    const checkpoint = task('c', CHECKPOINT);
    for (const one of [large, small, checkpoint]) one.pump();
    begun = [];
    for (let n = 0; n < 7; n += 1) full.end(CHECKPOINT);
    expect(begun).toEqual(['c checkpoint large', 'b result', 'a result large']);
  });

  it('the one that has fewest under way comes first: two that have very much to send share evenly', () => {
    const a = task('a', ...many(500, SMALL));
    const b = task('b', ...many(500, SMALL));
    a.pump();
    b.pump();
    expect([a.held, b.held]).toEqual([28, 0]);
    for (let n = 0; n < 100; n += 1) (a.held >= b.held ? a : b).end(SMALL);
    expect(Math.abs(a.held - b.held)).toBeLessThanOrEqual(1);
    expect(a.held + b.held).toBe(28);
  });

  it('the results of one that is stopped soon come before all other results, and need leave no room', () => {
    const a = task('a', ...many(500, SMALL));
    const b = task('b', ...many(20, LARGE));
    a.pump();
    b.seat.hurry(true);
    b.pump();
    expect([a.held, b.held]).toEqual([28, 4]);
    for (let n = 0; n < 10; n += 1) a.end(SMALL);
    expect([a.held, b.held]).toEqual([20, 8]);
  });

  it('one that ends leaves its room to the others', () => {
    const a = task('a', ...many(100, SMALL));
    const b = task('b', ...many(100, SMALL));
    a.pump();
    b.pump();
    a.waiting.splice(0);
    a.seat.close();
    for (let n = 0; n < 28; n += 1) a.seat.leave(SMALL);
    expect(b.held).toBe(32);
  });

  it('what must go at once goes without room, and counts', () => {
    const a = task('a', ...many(100, SMALL));
    a.pump();
    a.seat.take(CHECKPOINT);
    a.seat.leave(SMALL);
    expect(a.held).toBe(32);
    expect(a.seat.hasRoom(SMALL)).toBe(false);
  });
});
