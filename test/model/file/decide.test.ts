import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decide,
  type FileEvent,
  HOLD_MS,
  isDone,
  isReadHeld,
  MOST_DOUBT_MS,
  nextStep,
} from '../../../src/model/file/decide.ts';
import { type Evidence } from '../../../src/model/file/evidence.ts';
import { type FileState, type Fingerprint, newFileState } from '../../../src/model/file/file-state.ts';
import { type Ending, isSuspect } from '../../../src/model/file/suspect.ts';

const stateOf = (n: number): Fingerprint => ({
  dev: '1',
  ino: '2',
  size: n,
  mtimeNs: String(n),
  ctimeNs: String(n),
});
const durable = (n: number) => ({ fingerprint: stateOf(n), md5: String(n), size: n });
const DIED: Ending = {
  clean: false,
  endedAtMs: 0,
  signalledAtMs: undefined,
  writersStoppedAtMs: undefined,
  killed: false,
};
const calm = { nowMs: 0, urgent: false, holdReplacing: false, vouched: false };
const after = (fileState: FileState, ...events: readonly FileEvent[]): FileState =>
  events.reduce(decide, fileState);
const close = (atMs = 0, evidence?: Evidence): FileEvent => ({
  kind: 'closed',
  how: 'close',
  atMs,
  evidence,
});

describe('a declared file', () => {
  it('is pushed at once when it is closed', () => {
    expect(nextStep(after(newFileState('r', 'result', false), close()), calm)).toEqual({
      kind: 'push',
      spoolFirst: false,
    });
  });

  it('becomes one more push for all closes during a push', () => {
    let fileState = after(
      newFileState('r', 'result', false),
      close(),
      { kind: 'push-started' },
      close(1),
      close(2),
    );
    expect(nextStep(fileState, calm)).toEqual({ kind: 'nothing' });
    fileState = after(fileState, { kind: 'stored', durable: durable(1), atMs: 10, tookMs: 5 });
    expect(fileState.pending).toBe(true);
  });

  it('is not pushed again sooner than the last push took, unless it is urgent', () => {
    const fileState = after(
      newFileState('log', 'result', false),
      close(),
      { kind: 'push-started' },
      { kind: 'stored', durable: durable(1), atMs: 5000, tookMs: 4000 },
      close(5001),
    );
    expect(nextStep(fileState, { ...calm, nowMs: 6000 })).toEqual({ kind: 'wait', untilMs: 9000 });
    expect(nextStep(fileState, { ...calm, nowMs: 6000, urgent: true }).kind).toBe('push');
  });

  it('waits for two seconds when it would replace something that is stored', () => {
    const fileState = after(newFileState('r', 'result', true), close(100));
    expect(nextStep(fileState, { ...calm, nowMs: 100 })).toEqual({ kind: 'wait', untilMs: 100 + HOLD_MS });
  });

  it('waits for ten seconds at most when it is closed again and again', () => {
    let fileState = newFileState('log', 'result', true);
    for (let atMs = 0; atMs <= 9500; atMs += 500) fileState = after(fileState, close(atMs));
    expect(nextStep(fileState, { ...calm, nowMs: 9999 })).toEqual({ kind: 'wait', untilMs: 10_000 });
    expect(nextStep(fileState, { ...calm, nowMs: 10_000 }).kind).toBe('push');
  });

  it.each<[string, FileEvent]>([
    ['stored', { kind: 'stored', durable: durable(1), atMs: 11_500, tookMs: 50 }],
    ['torn', { kind: 'torn', atMs: 11_500 }],
    ['failed', { kind: 'failed', why: 'no', atMs: 11_500 }],
  ])('waits so, from its own close on, when it is closed during a push that ends as %s', (_, event) => {
    const pushed = after(newFileState('r', 'result', true), close(0), { kind: 'push-started' });
    const fileState = after(pushed, close(11_000), event);
    expect(nextStep(fileState, { ...calm, nowMs: 12_000 })).toEqual({
      kind: 'wait',
      untilMs: 11_000 + HOLD_MS,
    });
  });

  it('waits so when it is closed during its first push, which stores what it would replace', () => {
    const first = after(newFileState('r', 'result', false), close(0), { kind: 'push-started' }, close(3));
    const fileState = after(first, { kind: 'stored', durable: durable(1), atMs: 10, tookMs: 10 });
    expect(nextStep(fileState, { ...calm, nowMs: 100 })).toEqual({ kind: 'wait', untilMs: 3 + HOLD_MS });
  });

  it('waits so anew when what was held before is stored', () => {
    const pushed = after(newFileState('r', 'result', true), close(0), { kind: 'push-started' });
    const stored = after(pushed, { kind: 'stored', durable: durable(1), atMs: 2100, tookMs: 100 });
    const fileState = after(stored, close(60_000));
    expect(nextStep(fileState, { ...calm, nowMs: 60_000 })).toEqual({
      kind: 'wait',
      untilMs: 60_000 + HOLD_MS,
    });
  });

  it('never waits so as a checkpoint, which is always a new object', () => {
    expect(nextStep(after(newFileState('k', 'checkpoint', true), close()), calm).kind).toBe('push');
  });

  it('does not replace anything between SIGTERM and the end of the task', () => {
    const held = { ...calm, nowMs: 1e9, urgent: true, holdReplacing: true };
    expect(nextStep(after(newFileState('r', 'result', true), close()), held).kind).toBe('nothing');
    expect(nextStep(after(newFileState('r', 'result', false), close()), held).kind).toBe('push');
  });

  it('is pushed at once when nobody died as it was closed, whatever it replaces, after SIGTERM too', () => {
    const fileState = after(newFileState('r', 'result', true), close(100, 'clean'));
    expect(nextStep(fileState, { ...calm, nowMs: 100 }).kind).toBe('push');
    expect(nextStep(fileState, { ...calm, nowMs: 100, holdReplacing: true }).kind).toBe('push');
  });

  describe.each([
    ['first', false],
    ['replacing', true],
  ])('whose %s close may be a death’s', (_, replaces) => {
    const doubted = after(newFileState('r', 'result', replaces), close(100, 'doubtful'));

    it('waits until the task has lived on for ten seconds, also when somebody else is in a hurry', () => {
      const hurried = after(doubted, { kind: 'hurried' });
      for (const context of [calm, { ...calm, urgent: true }])
        expect(nextStep(hurried, { ...context, nowMs: 100 })).toEqual({ kind: 'wait', untilMs: 10_100 });
      expect(nextStep(doubted, { ...calm, nowMs: 10_100 }).kind).toBe('push');
    });

    it('is pushed when the task itself asks for it, or has ended', () => {
      expect(nextStep(doubted, { ...calm, urgent: true, vouched: true }).kind).toBe('push');
    });

    it('is pushed when the task vouches for it, after SIGTERM too, and is never suspect again', () => {
      const fileState = after(doubted, { kind: 'vouched' });
      expect(nextStep(fileState, { ...calm, nowMs: 100 }).kind).toBe('push');
      expect(nextStep(fileState, { ...calm, nowMs: 100, holdReplacing: true }).kind).toBe('push');
      for (const signalledAtMs of [undefined, 50])
        expect(isSuspect(fileState.lastClose, { ...DIED, endedAtMs: 200, signalledAtMs })).toBe(false);
    });

    it('is as doubtful as before when it is closed once more after that', () => {
      const fileState = after(doubted, { kind: 'vouched' }, close(200, 'doubtful'));
      expect(nextStep(fileState, { ...calm, nowMs: 200, urgent: true })).toEqual({
        kind: 'wait',
        untilMs: 10_200,
      });
      expect(isSuspect(fileState.lastClose, { ...DIED, endedAtMs: 300 })).toBe(true);
    });

    it('keeps the pause before the next try when the store has refused it', () => {
      const failed = after(doubted, { kind: 'push-started' }, { kind: 'failed', why: 'no', atMs: 20_000 });
      expect(after(failed, { kind: 'vouched' }).notBeforeMs).toBe(21_000);
    });

    it('is pushed when the task closes it again', () => {
      expect(nextStep(after(doubted, close(200, 'clean')), { ...calm, nowMs: 200 }).kind).toBe('push');
    });

    it('waits between SIGTERM and the end of the task', () => {
      const held = { ...calm, nowMs: 1e9, urgent: true, holdReplacing: true };
      expect(nextStep(doubted, held).kind).toBe('nothing');
    });

    it('waits as long when the store works again', () => {
      const failed = after(doubted, { kind: 'push-started' }, { kind: 'failed', why: 'no', atMs: 20_000 });
      const again = after(failed, close(21_000, 'doubtful'), { kind: 'retry-now' });
      expect(nextStep(again, { ...calm, nowMs: 21_000 })).toEqual({ kind: 'wait', untilMs: 31_000 });
    });

    describe('that came during a push, and that the push may have read', () => {
      const pushing = after(doubted, { kind: 'push-started' }, close(20_000, 'doubtful'));
      const asked = { ...calm, nowMs: 20_001 };

      it('holds it, unless the task vouches for it', () => {
        expect(isReadHeld(pushing, 100, asked)).toBe(true);
        expect(isReadHeld(pushing, 100, { ...asked, urgent: true })).toBe(true);
        expect(isReadHeld(pushing, 100, { ...asked, urgent: true, vouched: true })).toBe(false);
      });

      it('holds none that has no close behind it', () => {
        expect(isReadHeld(after(doubted, { kind: 'push-started' }), 100, asked)).toBe(false);
      });

      it('does not hold it for longer than a minute in all, although such closes never end', () => {
        expect(isReadHeld(pushing, 20_001 - MOST_DOUBT_MS, asked)).toBe(false);
        const held = after(pushing, { kind: 'held', sinceMs: 100 }, close(59_000, 'doubtful'));
        expect(nextStep(held, { ...calm, nowMs: 100 + MOST_DOUBT_MS - 1 }).kind).toBe('wait');
        expect(nextStep(held, { ...calm, nowMs: 100 + MOST_DOUBT_MS }).kind).toBe('push');
      });

      it('lets a flush push it at once, also if it was torn before', () => {
        const torn = after(pushing, { kind: 'torn', atMs: 20_001 }, { kind: 'push-started' });
        const held = after(torn, close(20_100, 'doubtful'), { kind: 'held', sinceMs: 100 });
        const flushed = { ...calm, nowMs: 20_101, urgent: true, vouched: true };
        expect(nextStep(held, flushed).kind).toBe('push');
      });
    });

    it('is pushed within a minute although each of its closes may be one', () => {
      let fileState = newFileState('r', 'result', replaces);
      for (let atMs = 0; atMs < MOST_DOUBT_MS; atMs += 5000)
        fileState = after(fileState, close(atMs, 'doubtful'));
      expect(nextStep(fileState, { ...calm, nowMs: MOST_DOUBT_MS - 1 }).kind).toBe('wait');
      expect(nextStep(fileState, { ...calm, nowMs: MOST_DOUBT_MS }).kind).toBe('push');
    });
  });

  it('is never held as a checkpoint, whoever closed it', () => {
    const fileState = after(newFileState('k', 'checkpoint', false), close(0, 'doubtful'));
    expect(nextStep(fileState, { ...calm, holdReplacing: true }).kind).toBe('push');
  });

  it('that the store refused is tried at once, and soon again, when the time is short', () => {
    const failed = { kind: 'failed', why: 'no', atMs: 0 } as const;
    const five = Array.from({ length: 5 }, () => [{ kind: 'push-started' }, failed] as const).flat();
    const fileState = after(newFileState('r', 'result', false), close(), ...five);
    expect(nextStep(fileState, { ...calm, urgent: true })).toEqual({ kind: 'wait', untilMs: 16_000 });
    const hurried = after(fileState, { kind: 'retry-now' });
    expect(nextStep(hurried, calm).kind).toBe('push');
    const again = after(hurried, { kind: 'push-started' }, failed);
    expect(nextStep(again, calm)).toEqual({ kind: 'wait', untilMs: 1000 });
  });

  it('waits for the next close while it has a writer', () => {
    const fileState = after(
      newFileState('r', 'result', false),
      close(),
      { kind: 'push-started' },
      { kind: 'has-writer' },
    );
    expect(nextStep(fileState, { ...calm, urgent: true }).kind).toBe('nothing');
    expect(nextStep(after(fileState, close(1)), calm).kind).toBe('push');
  });

  it('is looked at again when a close came while its writer was seen', () => {
    const fileState = after(newFileState('r', 'result', false), close(), { kind: 'push-started' }, close(1), {
      kind: 'has-writer',
    });
    expect(nextStep(fileState, calm).kind).toBe('push');
  });

  it('is tried again after 50 ms, doubling to 5 s, and spooled first, once it was torn', () => {
    let fileState = after(
      newFileState('k', 'checkpoint', false),
      close(),
      { kind: 'push-started' },
      { kind: 'torn', atMs: 1000 },
    );
    expect(nextStep(fileState, { ...calm, nowMs: 1000 })).toEqual({ kind: 'wait', untilMs: 1050 });
    expect(nextStep(fileState, { ...calm, nowMs: 1050 })).toEqual({ kind: 'push', spoolFirst: true });
    for (let n = 0; n < 20; n += 1)
      fileState = after(fileState, { kind: 'push-started' }, { kind: 'torn', atMs: 2000 });
    expect(nextStep(fileState, { ...calm, nowMs: 2000 })).toEqual({ kind: 'wait', untilMs: 7000 });
  });

  it('is no close when a scan sees the state that was inherited or stored', () => {
    const inherited = { ...newFileState('r', 'result', false), inherited: stateOf(1) };
    expect(after(inherited, { kind: 'closed', how: 'scan', atMs: 0, fingerprint: stateOf(1) }).pending).toBe(
      false,
    );
    expect(after(inherited, { kind: 'closed', how: 'scan', atMs: 0, fingerprint: stateOf(2) }).pending).toBe(
      true,
    );
  });

  it('counts what it inherited as its own only when the task ended with 0', () => {
    const inherited = { ...newFileState('r', 'result', false), inherited: stateOf(1) };
    expect(inherited.pending).toBe(false);
    expect(after(inherited, { kind: 'adopt' }).pending).toBe(true);
    expect(after(newFileState('r', 'result', false), { kind: 'adopt' }).pending).toBe(false);
  });

  it('is done but not durable when it was withdrawn', () => {
    const fileState = after(
      newFileState('r', 'result', false),
      close(),
      { kind: 'push-started' },
      { kind: 'gone' },
    );
    expect(isDone(fileState)).toBe(true);
    expect(fileState.durable).toBeUndefined();
  });
});

describe('every interleaving of closes, pushes, failures and ends', () => {
  /** What the task and the world may do; the content of the file is a growing number. */
  const step = fc.oneof(
    fc.constant('close' as const),
    fc.constant('push' as const),
    fc.constantFrom('stored' as const, 'torn' as const, 'writer' as const, 'failed' as const),
    fc.constant('scan' as const),
  );

  it('ends with the last closed content durable or reported as left', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.boolean(), (steps, replaces) => {
        const world = { content: 0, read: 0, stored: 0, nowMs: 0 };
        let fileState = newFileState('r', 'result', replaces);
        const happen = (what: (typeof steps)[number]): void => {
          world.nowMs += 1;
          if (what === 'close') {
            world.content += 1;
            fileState = decide(fileState, close(world.nowMs));
          } else if (what === 'scan') {
            const fingerprint = stateOf(world.content);
            if (world.content > 0)
              fileState = decide(fileState, { kind: 'closed', how: 'scan', atMs: world.nowMs, fingerprint });
          } else if (what === 'push') {
            const next = nextStep(fileState, {
              nowMs: Infinity,
              urgent: true,
              holdReplacing: false,
              vouched: true,
            });
            if (next.kind !== 'push') return;
            world.read = world.content;
            fileState = decide(fileState, { kind: 'push-started' });
          } else if (fileState.pushing) {
            if (what === 'stored') {
              world.stored = world.read;
              fileState = decide(fileState, {
                kind: 'stored',
                durable: durable(world.read),
                atMs: world.nowMs,
                tookMs: 1,
              });
            } else if (what === 'torn') fileState = decide(fileState, { kind: 'torn', atMs: world.nowMs });
            else if (what === 'writer') fileState = decide(fileState, { kind: 'has-writer' });
            else fileState = decide(fileState, { kind: 'failed', why: 'outage', atMs: world.nowMs });
          }
          // Nothing counts as durable before the store has said so.
          expect(fileState.durable?.size ?? 0).toBe(world.stored);
        };
        for (const what of steps) happen(what);
        // The end of the run: a scan without writers, then pushes that succeed.
        if (fileState.pushing) happen('stored');
        happen('scan');
        for (let n = 0; n < 3; n += 1) {
          happen('push');
          happen('stored');
        }
        expect(world.stored).toBe(world.content);
        expect(isDone(fileState)).toBe(true);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('a scan at the end of the run', () => {
  it('does not make a new close of what waits to be pushed', () => {
    const waiting = after(newFileState('r', 'result', false), close(5));
    const seen = after(waiting, { kind: 'closed', how: 'scan', atMs: 9000, fingerprint: stateOf(1) });
    expect(seen.lastClose).toEqual({ how: 'close', atMs: 5, evidence: 'unknown' });
    expect(seen.closes).toBe(1);
  });

  it('makes a new close of what was written after the last one that was told', () => {
    const waiting = after(newFileState('r', 'result', false), close(5));
    const written = { ...stateOf(1), mtimeNs: '8000000', ctimeNs: '8000000' };
    const seen = after(waiting, { kind: 'closed', how: 'scan', atMs: 9000, fingerprint: written });
    expect(seen.lastClose).toEqual({ how: 'scan', atMs: 9000, evidence: 'unknown' });
  });

  it('does not make a renamed checkpoint that is on its way one that a death may have closed', () => {
    const renamed = after(newFileState('k', 'checkpoint', false), { kind: 'closed', how: 'rename', atMs: 5 });
    const onItsWay = after(renamed, { kind: 'push-started' });
    const seen = after(onItsWay, { kind: 'closed', how: 'scan', atMs: 9000, fingerprint: stateOf(1) });
    expect(seen.lastClose?.how).toBe('rename');
    expect(seen.closedAgain).toBe(false);
  });
});
