import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide, type FileEvent, isDone, isOver, nextStep } from '../../../src/model/file/decide.ts';
import { type Evidence } from '../../../src/model/file/evidence.ts';
import { type FileState, type Fingerprint, newFileState } from '../../../src/model/file/file-state.ts';
import { type TaskEnding, isSuspect } from '../../../src/model/file/suspect.ts';

const stateOf = (n: number): Fingerprint => ({
  dev: '1',
  ino: '2',
  size: n,
  mtimeNs: String(n),
  ctimeNs: String(n),
});
const durable = (n: number) => ({ fingerprint: stateOf(n), md5: String(n), size: n });
const DIED: TaskEnding = {
  clean: false,
  endedAtMs: 0,
  signalledAtMs: undefined,
  writersStoppedAtMs: undefined,
  bySignal: false,
};
const calm = { nowMs: 0, urgent: false };
const checkpoint = (): FileState => newFileState('k', 'checkpoint');
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
    expect(nextStep(after(newFileState('r', 'result'), close()), calm)).toEqual({
      kind: 'push',
      spoolFirst: false,
    });
  });

  it('becomes one more push for all closes during a push', () => {
    let fileState = after(newFileState('r', 'result'), close(), { kind: 'push-started' }, close(1), close(2));
    expect(nextStep(fileState, calm)).toEqual({ kind: 'nothing' });
    fileState = after(fileState, { kind: 'stored', durable: durable(1), atMs: 10, tookMs: 5 });
    expect(fileState.pending).toBe(true);
  });

  it('is pushed once more when a push has covered fewer closes than there were', () => {
    const begun = after(checkpoint(), close(1), close(2), { kind: 'push-started', covers: 1 });
    const one = decide(begun, { kind: 'stored', durable: durable(1), atMs: 3, tookMs: 1 });
    expect(one).toMatchObject({ pending: true, durableCloses: 1 });
    const none = after(checkpoint(), close(1), { kind: 'push-started', covers: 1 });
    expect(decide(none, { kind: 'stored', durable: durable(1), atMs: 3, tookMs: 1 }).pending).toBe(false);
  });

  it('is pushed once more when a scan saw another state than the push has read, in the ms of the last close', () => {
    const seen = (n: number): FileState =>
      after(
        checkpoint(),
        close(1),
        { kind: 'push-started' },
        { kind: 'closed', how: 'scan', atMs: 1, fingerprint: stateOf(n) },
        { kind: 'stored', durable: durable(1), atMs: 3, tookMs: 1 },
      );
    expect([seen(1).pending, seen(2).pending, seen(2).seen]).toEqual([false, true, undefined]);
    // A flush waits for that state: it asks for all closes by now.
    expect([isOver(seen(1), seen(1).closes), isOver(seen(2), seen(2).closes)]).toEqual([true, false]);
  });

  it('is over when it goes, or no set needs it, after a scan saw it in the ms of the last close', () => {
    const seen = after(
      checkpoint(),
      close(1),
      { kind: 'push-started' },
      { kind: 'closed', how: 'scan', atMs: 1, fingerprint: stateOf(2) },
    );
    for (const kind of ['gone', 'dropped'] as const)
      expect(isOver(decide(seen, { kind }), seen.closes)).toBe(true);
  });

  it('is waited for no more when no set needs it, before its next close', () => {
    const waits = after(checkpoint(), close(1), { kind: 'dropped' });
    expect([isDone(waits), waits.durableCloses, waits.left]).toEqual([true, 1, undefined]);
    const sent = after(checkpoint(), close(1), { kind: 'push-started' }, close(2), { kind: 'dropped' });
    expect([isDone(sent), sent.durableCloses]).toEqual([false, 1]);
    expect(isDone(after(checkpoint(), close(1), { kind: 'push-started' }, { kind: 'dropped' }))).toBe(true);
    expect(nextStep(decide(waits, close(3)), calm).kind).toBe('push');
  });

  it('is not pushed again sooner than the last push took, unless it is urgent', () => {
    const fileState = after(
      newFileState('log', 'result'),
      close(),
      { kind: 'push-started' },
      { kind: 'stored', durable: durable(1), atMs: 5000, tookMs: 4000 },
      close(5001),
    );
    expect(nextStep(fileState, { ...calm, nowMs: 6000 })).toEqual({ kind: 'wait', untilMs: 9000 });
    expect(nextStep(fileState, { ...calm, nowMs: 6000, urgent: true }).kind).toBe('push');
  });

  it.each<[string, FileEvent]>([
    ['stored', { kind: 'stored', durable: durable(1), atMs: 11_500, tookMs: 0 }],
    ['torn', { kind: 'torn', atMs: 11_500 }],
    ['failed', { kind: 'failed', why: 'no', atMs: 11_500 }],
  ])('is pushed at once when it is closed during a push that ends as %s', (_, event) => {
    const pushed = after(newFileState('r', 'result'), close(0), { kind: 'push-started' });
    const fileState = after(pushed, close(11_000), event);
    expect(nextStep(fileState, { ...calm, nowMs: 11_500 }).kind).toBe('push');
  });

  it.each<[FileState['role'], Evidence]>([
    ['result', 'clean'],
    ['result', 'unknown'],
    ['checkpoint', 'clean'],
    ['checkpoint', 'doubtful'],
    ['checkpoint', 'unknown'],
  ])(
    'is pushed at once as a %s whose close is %s, although its content is stored already',
    (role, evidence) => {
      const first = after(newFileState('r', role), close(0, evidence));
      expect(nextStep(first, calm).kind).toBe('push');
      const stored = { kind: 'stored', durable: durable(1), atMs: 10, tookMs: 10 } as const;
      const again = after(first, { kind: 'push-started' }, stored, close(100, evidence));
      expect(nextStep(again, { ...calm, nowMs: 100 }).kind).toBe('push');
    },
  );

  describe('that is a result and whose close is doubtful', () => {
    const doubtful = after(newFileState('r', 'result'), close(0, 'doubtful'));
    const at = (fileState: FileState, nowMs: number) => nextStep(fileState, { ...calm, nowMs });

    it('is pushed 100 ms later, when a task that ends with it has ended', () => {
      expect(at(doubtful, 0)).toEqual({ kind: 'wait', untilMs: 100 });
      expect(at(doubtful, 100).kind).toBe('push');
    });

    it('waits no longer when it is closed again, or seen by a scan, before that', () => {
      const again = after(doubtful, close(90, 'doubtful'));
      expect(at(again, 90)).toEqual({ kind: 'wait', untilMs: 100 });
      const seen = after(doubtful, { kind: 'closed', how: 'scan', atMs: 90, fingerprint: stateOf(1) });
      expect(at(seen, 90)).toEqual({ kind: 'wait', untilMs: 100 });
    });

    it('is pushed at once when it is urgent, or somebody waits for it', () => {
      expect(nextStep(doubtful, { ...calm, urgent: true }).kind).toBe('push');
      expect(at(after(doubtful, { kind: 'hurried' }), 0).kind).toBe('push');
    });
  });

  describe('whose close may be a death’s', () => {
    const doubted = after(newFileState('r', 'result'), close(100, 'doubtful'));

    it('is never suspect again when the task vouches for it, after SIGTERM too', () => {
      expect(isSuspect(doubted.lastClose, { ...DIED, endedAtMs: 200 })).toBe(true);
      const fileState = after(doubted, { kind: 'vouched' });
      for (const signalledAtMs of [undefined, 50])
        expect(isSuspect(fileState.lastClose, { ...DIED, endedAtMs: 200, signalledAtMs })).toBe(false);
    });

    it('is as doubtful as before when it is closed once more after that', () => {
      const fileState = after(doubted, { kind: 'vouched' }, close(200, 'doubtful'));
      expect(isSuspect(fileState.lastClose, { ...DIED, endedAtMs: 300 })).toBe(true);
    });

    it('keeps the pause before the next try when the store has refused it', () => {
      const failed = after(doubted, { kind: 'push-started' }, { kind: 'failed', why: 'no', atMs: 20_000 });
      expect(after(failed, { kind: 'vouched' }).notBeforeMs).toBe(21_000);
    });
  });

  it('keeps the pause before the next try when it is closed again, unless it was torn', () => {
    const pushing = after(newFileState('r', 'result'), close(), { kind: 'push-started' });
    const refused = after(pushing, { kind: 'failed', why: 'no', atMs: 1000 }, close(1100));
    expect(nextStep(refused, { ...calm, nowMs: 1100 })).toEqual({ kind: 'wait', untilMs: 2000 });
    const torn = after(pushing, { kind: 'torn', atMs: 1000 }, close(1010));
    expect(nextStep(torn, { ...calm, nowMs: 1010 }).kind).toBe('push');
  });

  it('that the store refused is tried at once, and soon again, when the time is short', () => {
    const failed = { kind: 'failed', why: 'no', atMs: 0 } as const;
    const five = Array.from({ length: 5 }, () => [{ kind: 'push-started' }, failed] as const).flat();
    const fileState = after(newFileState('r', 'result'), close(), ...five);
    expect(nextStep(fileState, { ...calm, urgent: true })).toEqual({ kind: 'wait', untilMs: 16_000 });
    const hurried = after(fileState, { kind: 'retry-now' });
    expect(nextStep(hurried, calm).kind).toBe('push');
    const again = after(hurried, { kind: 'push-started' }, failed);
    expect(nextStep(again, calm)).toEqual({ kind: 'wait', untilMs: 1000 });
  });

  it('waits for the next close while it has a writer', () => {
    const fileState = after(
      newFileState('r', 'result'),
      close(),
      { kind: 'push-started' },
      { kind: 'has-writer' },
    );
    expect(nextStep(fileState, { ...calm, urgent: true }).kind).toBe('nothing');
    expect(nextStep(after(fileState, close(1)), calm).kind).toBe('push');
  });

  it('is looked at again when a close came while its writer was seen', () => {
    const fileState = after(newFileState('r', 'result'), close(), { kind: 'push-started' }, close(1), {
      kind: 'has-writer',
    });
    expect(nextStep(fileState, calm).kind).toBe('push');
  });

  it('is tried again after 50 ms, doubling to 5 s, and spooled first, once it was torn', () => {
    let fileState = after(
      newFileState('k', 'checkpoint'),
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
    const inherited = { ...newFileState('r', 'result'), inherited: stateOf(1) };
    expect(after(inherited, { kind: 'closed', how: 'scan', atMs: 0, fingerprint: stateOf(1) }).pending).toBe(
      false,
    );
    expect(after(inherited, { kind: 'closed', how: 'scan', atMs: 0, fingerprint: stateOf(2) }).pending).toBe(
      true,
    );
  });

  it('counts what it inherited as its own only when the task ended with 0', () => {
    const inherited = { ...newFileState('r', 'result'), inherited: stateOf(1) };
    expect(inherited.pending).toBe(false);
    expect(after(inherited, { kind: 'adopt' }).pending).toBe(true);
    expect(after(newFileState('r', 'result'), { kind: 'adopt' }).pending).toBe(false);
  });

  it('is done but not durable when it was withdrawn', () => {
    const fileState = after(newFileState('r', 'result'), close(), { kind: 'push-started' }, { kind: 'gone' });
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
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const world = { content: 0, read: 0, stored: 0, nowMs: 0 };
        let fileState = newFileState('r', 'result');
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
            const next = nextStep(fileState, { nowMs: Infinity, urgent: true });
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
  it('keeps what is known of the first close, which a second one is not', () => {
    const first = after(newFileState('r', 'result'), {
      kind: 'closed',
      how: 'close',
      atMs: 5,
      seq: 7,
      since: 3,
    });
    const pushing = after(first, { kind: 'push-started' });
    const seen = after(pushing, { kind: 'closed', how: 'scan', atMs: 9000, fingerprint: stateOf(1) });
    expect(seen.lastClose).toMatchObject({ how: 'close', seq: 7, since: 3 });
    const found = after(newFileState('r', 'result'), { kind: 'closed', how: 'scan', atMs: 1 });
    const closed = after(found, { kind: 'closed', how: 'close', atMs: 5, seq: 7, since: 3 });
    expect(closed.lastClose).toMatchObject({ seq: 7, since: 3 });
    const again = after(seen, { kind: 'closed', how: 'close', atMs: 9001, seq: 8, since: 3 });
    expect(again.lastClose?.since).toBeUndefined();
  });

  it('does not make a new close of what waits to be pushed', () => {
    const waiting = after(newFileState('r', 'result'), close(5));
    const seen = after(waiting, { kind: 'closed', how: 'scan', atMs: 9000, fingerprint: stateOf(1) });
    expect(seen.lastClose).toEqual({ how: 'close', atMs: 5, evidence: 'unknown', seq: 0, since: 0 });
    expect(seen.closes).toBe(1);
  });

  it('makes a new close of what was written after the last one that was told', () => {
    const waiting = after(newFileState('r', 'result'), close(5));
    const written = { ...stateOf(1), mtimeNs: '8000000', ctimeNs: '8000000' };
    const seen = after(waiting, { kind: 'closed', how: 'scan', atMs: 9000, fingerprint: written });
    expect(seen.lastClose).toEqual({ how: 'scan', atMs: 9000, evidence: 'unknown', seq: 0 });
  });

  it('makes a new close of what somebody had open at the last look, as its close may have been lost', () => {
    const found = after(newFileState('r', 'result'), { kind: 'closed', how: 'scan', atMs: 5 });
    const open = after(found, { kind: 'push-started' }, { kind: 'has-writer' });
    const seen = after(open, { kind: 'closed', how: 'scan', atMs: 9000, fingerprint: stateOf(1) });
    expect(seen.lastClose).toMatchObject({ how: 'scan', atMs: 9000 });
  });

  it('does not make a renamed checkpoint that is on its way one that a death may have closed', () => {
    const renamed = after(newFileState('k', 'checkpoint'), { kind: 'closed', how: 'rename', atMs: 5 });
    const onItsWay = after(renamed, { kind: 'push-started' });
    const seen = after(onItsWay, { kind: 'closed', how: 'scan', atMs: 9000, fingerprint: stateOf(1) });
    expect(seen.lastClose?.how).toBe('rename');
    expect(seen.closedAgain).toBe(false);
  });
});
