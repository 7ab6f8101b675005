// The deaths of real processes that are not our children.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type DeathWatcher, openDeathWatcher } from '../../src/native/death-watcher.ts';
import { newDeferred } from '../../src/model/waiting.ts';

/** Processes that wait, below a shell that waits for them, or below a program that waits for nobody. */
async function grandchildren(count: number, waits: 'wait' | ':' = 'wait'): Promise<readonly number[]> {
  const script = `for n in $(seq ${count}); do sleep 3600 & echo $!; done; echo ready; ${waits}; exec sleep 3600`;
  const shell: ChildProcess = spawn('bash', ['-c', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  onTestFinished(() => void process.kill(-(shell.pid ?? 0), 'SIGKILL'));
  let said = '';
  shell.stdout?.on('data', (text) => (said += String(text)));
  while (!said.includes('ready')) await once(shell.stdout as NodeJS.EventEmitter, 'data');
  return said.trim().split('\n').slice(0, -1).map(Number);
}

/** `next()` resolves at the next death that is told. */
function opened(): { readonly deaths: DeathWatcher; next(): Promise<void>; told(): number } {
  let told = 0;
  let heard = newDeferred<void>();
  const deaths = openDeathWatcher(() => {
    told += 1;
    heard.resolve();
    heard = newDeferred<void>();
  });
  if (deaths === undefined) throw new Error('this kernel has no pidfd');
  onTestFinished(() => deaths.close());
  return { deaths, next: () => heard.promise, told: () => told };
}

describe('deaths', () => {
  it('are told of processes that are not our children, once for each call', async () => {
    const [a = 0, b = 0, c = 0] = await grandchildren(3);
    const { deaths, next, told } = opened();
    expect(deaths.follow([a, b, c])).toBe(true);
    const first = next();
    process.kill(b, 'SIGKILL');
    await first;
    // Nobody has asked for more. Somebody else hears of it.
    const other = opened();
    expect(other.deaths.follow([c])).toBe(true);
    const third = other.next();
    process.kill(c, 'SIGKILL');
    await third;
    expect(told()).toBe(1);
    const second = next();
    expect(deaths.follow([a])).toBe(true);
    process.kill(a, 'SIGKILL');
    await second;
    expect(told()).toBe(2);
  });

  it.each([
    ['are told at once by the second one', ':', true],
    ['cannot be heard if the process is gone already', 'wait', false],
  ] as const)('between two calls %s', async (_, waits, isFollowed) => {
    const [a = 0, b = 0] = await grandchildren(2, waits);
    const { deaths, next } = opened();
    expect(deaths.follow([a, b])).toBe(true);
    const first = next();
    process.kill(a, 'SIGKILL');
    await first;
    process.kill(b, 'SIGKILL');
    if (!isFollowed) while (fs.existsSync(`/proc/${b}`)) await pause(10);
    const second = next();
    expect(deaths.follow([b])).toBe(isFollowed);
    if (isFollowed) await second;
  });

  it('of a process that is gone cannot be heard, nor of more than can be followed', async () => {
    const child = spawn('true');
    await once(child, 'exit');
    const { deaths } = opened();
    expect(deaths.follow([child.pid ?? 0])).toBe(false);
    const many = await grandchildren(257);
    const before = fs.readdirSync('/proc/self/fd').length;
    expect(deaths.follow(many)).toBe(false);
    // What else is opened needs them.
    expect(fs.readdirSync('/proc/self/fd')).toHaveLength(before);
    expect(deaths.follow(many.slice(1))).toBe(true);
  });

  it('are told no more once closed', async () => {
    const [a = 0] = await grandchildren(1);
    const closed = opened();
    expect(closed.deaths.follow([a])).toBe(true);
    closed.deaths.close();
    const other = opened();
    expect(other.deaths.follow([a])).toBe(true);
    const heard = other.next();
    process.kill(a, 'SIGKILL');
    await heard;
    expect(closed.told()).toBe(0);
  });
});
