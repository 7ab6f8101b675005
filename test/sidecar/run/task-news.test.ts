import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TaskNews } from '../../../src/sidecar/run/task-news.ts';

let child: ChildProcess;
let nowMs: number;
let news: TaskNews;
beforeEach(async () => {
  nowMs = 1000;
  news = new TaskNews(() => nowMs);
  child = spawn('sleep', ['1000'], { stdio: 'ignore' });
  await once(child, 'spawn');
});
afterEach(() => {
  child.kill('SIGKILL');
});

async function taskDies(): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

describe('the news of the task', () => {
  it('reach the present while its main process lives', () => {
    news.started(child.pid as number);
    expect(news.reaches(2000)).toBe(false);
    nowMs = 2000;
    expect(news.reaches(2000)).toBe(true);
    expect(news.reaches(Infinity)).toBe(false);
  });

  it('reach no instant after it was last seen alive, once it is gone', async () => {
    news.started(child.pid as number);
    nowMs = 5000;
    expect(news.reaches(4000)).toBe(true);
    await taskDies();
    nowMs = 60_000;
    expect(news.reaches(5000)).toBe(true);
    expect(news.reaches(5001)).toBe(false);
  });

  it('reach no instant once an exit file says that it has ended, if no process is known', () => {
    let hasEnded = false;
    const watched = new TaskNews(
      () => nowMs,
      () => hasEnded,
    );
    nowMs = 2000;
    expect(watched.reaches(2000)).toBe(true);
    hasEnded = true;
    expect(watched.reaches(1500)).toBe(false);
  });

  it('reach no instant after a death that no parent has waited for yet', async () => {
    // The parent becomes cat, which waits for no child.
    const parent = spawn('sh', ['-c', 'sleep 1000 & echo $!; exec cat'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const pid = Number(String(await once(parent.stdout, 'data')));
    const nameOfParent = (): string => fs.readFileSync(`/proc/${parent.pid}/comm`, 'utf8');
    await expect.poll(nameOfParent, { interval: 1, timeout: 60_000 }).toBe('cat\n');
    news.started(pid);
    process.kill(pid, 'SIGKILL');
    const stateOf = (): string | undefined =>
      / (\w) /.exec(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
    await expect.poll(stateOf, { interval: 1, timeout: 60_000 }).toBe('Z');
    nowMs = 60_000;
    expect(news.reaches(50_000)).toBe(false);
    parent.stdin.end();
    await once(parent, 'exit');
  });

  it('reach the present if no process is known', () => {
    nowMs = 60_000;
    expect(news.reaches(50_000)).toBe(true);
  });
});
