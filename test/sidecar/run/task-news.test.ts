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
  it('reach each instant that has come, while its main process lives', () => {
    news.started(child.pid as number);
    expect(news.reaches(2000)).toBe(false);
    nowMs = 2000;
    expect(news.reaches(2000)).toBe(true);
    expect(news.reaches(Infinity)).toBe(false);
  });

  it('reach none after it was last seen alive once it is gone, however late it is', async () => {
    news.started(child.pid as number);
    nowMs = 5000;
    expect(news.reaches(4000)).toBe(true);
    await taskDies();
    nowMs = 60_000;
    expect(news.reaches(5000)).toBe(true);
    expect(news.reaches(5001)).toBe(false);
  });

  it('reach no instant once an exit file says that it has ended, where no process is known', () => {
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

  it('reach none after a death that nobody has waited for yet', async () => {
    // sh waits for no child while it reads.
    const parent = spawn('sh', ['-c', 'sleep 1000 & echo $!; read line'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const pid = Number(String(await once(parent.stdout, 'data')));
    news.started(pid);
    process.kill(pid, 'SIGKILL');
    const stateOf = (): string | undefined =>
      / (\w) /.exec(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
    await expect.poll(stateOf, { interval: 1, timeout: 60_000 }).toBe('Z');
    nowMs = 60_000;
    expect(news.reaches(50_000)).toBe(false);
    parent.stdin.end('\n');
    await once(parent, 'exit');
  });

  it('are as old as the time where nobody names a process', () => {
    nowMs = 60_000;
    expect(news.reaches(50_000)).toBe(true);
  });
});
