import { describe, expect, it } from 'vitest';
import { askProgram } from '../../src/native/ask-program.ts';

const { env } = process;

describe('askProgram', () => {
  it('hands words over as they are, and resolves to what the program prints', async () => {
    expect(await askProgram('printf', ['%s', '$(id); *'], { env, withinMs: 10_000 })).toBe('$(id); *');
  });

  it('throws with the first line that a failed program wrote, or its status', async () => {
    const fails = (script: string): Promise<string> =>
      askProgram('sh', ['-c', script], { env, withinMs: 10_000 });
    await expect(fails('echo "no controller" >&2; exit 1')).rejects.toThrow('no controller');
    await expect(fails('exit 3')).rejects.toThrow('exit 3');
    await expect(askProgram('no-such-program', [], { env, withinMs: 10_000 })).rejects.toMatchObject({
      code: 'ENOENT',
    });
  });

  it('ends a program that hangs, with what it has started', async () => {
    const hangs = askProgram('sh', ['-c', 'sleep 600 & sleep 600'], { env, withinMs: 50 });
    await expect(hangs).rejects.toThrow('no answer within');
  });

  it('ends a program that prints without end', async () => {
    await expect(askProgram('yes', [], { env, withinMs: 600_000 })).rejects.toThrow(
      'printed more than 64.0 MiB',
    );
  });

  it('ends it when the signal aborts, with its reason', async () => {
    const stop = new AbortController();
    const asked = askProgram('sleep', ['600'], { env, withinMs: 600_000, signal: stop.signal });
    stop.abort(new Error('Ctrl-C'));
    await expect(asked).rejects.toThrow('Ctrl-C');
  });
});
