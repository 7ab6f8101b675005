import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { askProgram } from '../../src/native/ask-program.ts';
import { isZombie, readStat } from '../../src/native/processes.ts';
import { bundle } from '../support/bundle.ts';

const NEVER = { withinMs: 600_000 };

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-ask-'));
});
afterEach(() => {
  for (const pid of pids()) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
  fs.rmSync(dir, { recursive: true });
});

/** What the scripts have noted in `$DIR/pids`. */
function pids(): readonly number[] {
  const file = path.join(dir, 'pids');
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean).map(Number) : [];
}

const isThere = (pid: number): boolean => {
  const stat = readStat(pid);
  return stat !== undefined && !isZombie(stat);
};

type Options = Partial<Parameters<typeof askProgram>[2]>;

function script(text: string, options: Options = {}): Promise<string> {
  return askProgram('sh', ['-c', text], { ...NEVER, env: { ...process.env, DIR: dir }, ...options });
}

/** A process in another session holds both pipes; its pid is noted first. */
const LEAVES = 'setsid sleep 600 & echo $! >>"$DIR/pids"';
/** The shell and a child of its group note their pids, and hang. */
const HANGS = 'sleep 600 & printf "%s\\n" $$ $! >>"$DIR/pids"; wait';

describe('askProgram', () => {
  it('hands words over as they are, and resolves to what the program prints', async () => {
    expect(await askProgram('printf', ['%s', '$(id); *'], NEVER)).toBe('$(id); *');
  });

  it('throws with the first line that a failed program wrote, or its status', async () => {
    await expect(script('echo "no controller" >&2; exit 1')).rejects.toThrow('no controller');
    await expect(script('exit 3')).rejects.toThrow('exit 3');
    await expect(script('kill -9 $$')).rejects.toThrow('it was ended by SIGKILL');
    await expect(askProgram('no-such-program', [], NEVER)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('shows its process to the caller before it can end', async () => {
    const started: ChildProcess[] = [];
    await script('echo', { started: (child) => started.push(child) });
    expect(started).toHaveLength(1);
  });

  it('has the answer when the program exits, although a process that it left behind holds its pipes', async () => {
    expect(await script(`${LEAVES}; echo answer`)).toBe('answer\n');
    await expect(script(`${LEAVES}; echo "no controller" >&2; exit 1`)).rejects.toThrow('no controller');
    expect(pids().map(isThere)).toEqual([true, true]);
  });

  it('reads what another process of it prints shortly after, even if this process is busy then', async () => {
    const waited = new Int32Array(new SharedArrayBuffer(4));
    const busy = (): void => {
      while (!fs.existsSync(path.join(dir, 'late'))) Atomics.wait(waited, 0, 0, 10);
      Atomics.wait(waited, 0, 0, 500);
    };
    const answer = script('{ sleep 0.05; echo late; : >"$DIR/late"; } &', {
      started: (child) => child.once('exit', () => setImmediate(busy)),
    });
    expect(await answer).toBe('late\n');
  });

  it('kills a program that hangs, with what it has started', async () => {
    await expect(script(HANGS, { withinMs: 500 })).rejects.toThrow('no answer within 500 ms');
    await vi.waitFor(() => expect(pids().filter(isThere)).toEqual([]), 10_000);
  });

  it('waits no longer for one that hangs behind a process of another session', async () => {
    await expect(script(`${LEAVES}; ${HANGS}`, { withinMs: 500 })).rejects.toThrow('no answer within');
  });

  it.each([
    ['stdout', 'yes', 'it printed more than 1.0 MiB'],
    ['stdout, from a process of another session', 'setsid yes & echo $! >>"$DIR/pids"; wait', 'more than'],
    ['stderr', 'exec yes >&2', 'no answer within'],
  ])('ends a program that prints without end on %s', async (_, text, why) => {
    await expect(script(text, { withinMs: 2000 })).rejects.toThrow(why);
  });

  it('reads as much as the caller allows', async () => {
    expect(await script('printf 12345', { mostBytes: 5 })).toBe('12345');
    await expect(script('printf 123456', { mostBytes: 5 })).rejects.toThrow('it printed more than 5 B');
  });

  it('kills it when the signal aborts, and throws its reason', async () => {
    const stop = new AbortController();
    const asked = script(HANGS, { signal: stop.signal });
    const ends = expect(asked).rejects.toThrow('Ctrl-C');
    await vi.waitFor(() => expect(pids()).toHaveLength(2), 10_000);
    stop.abort(new Error('Ctrl-C'));
    await ends;
    await vi.waitFor(() => expect(pids().filter(isThere)).toEqual([]), 10_000);
    await expect(script('echo', { signal: stop.signal })).rejects.toThrow('Ctrl-C');
  });

  it('leaves it in our process group if it may ask at the terminal', async () => {
    const group = 'ps -o pgid= -p $$';
    const ours = readStat(process.pid)?.group;
    expect(Number(await script(group, { inForeground: true }))).toBe(ours);
    expect(Number(await script(group))).not.toBe(ours);
  });

  it('kills it when this process exits', async () => {
    const module = await bundle('src/native/ask-program.ts', dir);
    const asks = `import { askProgram } from ${JSON.stringify(module)};
      process.on('message', () => process.exit(0));
      void askProgram('sh', ['-c', ${JSON.stringify(HANGS)}], { withinMs: 600_000 });`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', asks], {
      env: { ...process.env, DIR: dir },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    await vi.waitFor(() => expect(pids()).toHaveLength(2), 10_000);
    child.send('exit');
    await once(child, 'exit');
    await vi.waitFor(() => expect(pids().filter(isThere)).toEqual([]), 10_000);
  });
});
