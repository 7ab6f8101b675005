import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { linkSignals, whileLinked } from '../../src/model/linked-signal.ts';

describe('linked signals', () => {
  it('abort with the first of them, and with its reason', () => {
    const [one, two] = [new AbortController(), new AbortController()];
    const { signal } = linkSignals(one.signal, undefined, two.signal);
    expect(signal.aborted).toBe(false);
    two.abort('enough');
    one.abort('too late');
    expect(signal.reason).toBe('enough');
  });

  it('are aborted at once when one of them is', () => {
    const running = new AbortController().signal;
    expect(linkSignals(running, AbortSignal.abort('before')).signal.reason).toBe('before');
    expect(getEventListeners(running, 'abort')).toHaveLength(0);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['done', () => Promise.resolve(1)],
    ['failed', () => Promise.reject(new Error('no'))],
  ])('leave nothing at the signal of the run once the work is %s', async (_, work) => {
    const run = new AbortController().signal;
    const working = whileLinked([run, new AbortController().signal], () => {
      expect(getEventListeners(run, 'abort')).toHaveLength(1);
      return work();
    });
    await working.catch(() => undefined);
    expect(getEventListeners(run, 'abort')).toHaveLength(0);
  });

  it('leave nothing at the others when one of them aborts', () => {
    const run = new AbortController().signal;
    const late = new AbortController();
    linkSignals(run, late.signal);
    late.abort();
    expect(getEventListeners(run, 'abort')).toHaveLength(0);
  });
});
