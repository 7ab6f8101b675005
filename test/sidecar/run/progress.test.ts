// The second is the test's; the terminal is one of our own.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { messageLines } from '../../../src/model/format/message-line.ts';
import { progressLine } from '../../../src/model/format/progress-line.ts';
import { Progress } from '../../../src/sidecar/run/progress.ts';
import { screen } from '../../support/screen.ts';

const MIB = 2 ** 20;

let terminal = '';
let progress: Progress;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  terminal = '';
  progress = new Progress((text) => (terminal += text));
});
afterEach(() => vi.useRealTimers());

const say = (text: string): void => void (terminal += messageLines('info', text, undefined, undefined));

describe('the progress line', () => {
  it('shows files, bytes, rate and the time that is left', () => {
    const far = { what: 'storing', files: 12, filesDone: 3, bytes: 4 * 2 ** 30, bytesDone: 1.2 * 2 ** 30 };
    expect(progressLine({ ...far, bytesMoved: 1100 * MIB, elapsedMs: 10_000 })).toBe(
      'storing: 3 of 12 files, 1.2 GiB of 4.0 GiB, 110.0 MiB/s, 26.1 s left',
    );
  });

  it('leaves out what is unknown: the size of an input, the rate before any byte has moved', () => {
    const far = { what: 'restoring', files: 1, filesDone: 0, bytesDone: 0, bytesMoved: 0, elapsedMs: 1000 };
    expect(progressLine({ ...far, bytes: undefined })).toBe('restoring: 0 of 1 file, 0 B, 0 B/s');
    expect(progressLine({ ...far, bytes: 0 })).toBe('restoring: 0 of 1 file, 0 B, 0 B/s');
    expect(progressLine({ ...far, bytes: 10 })).toBe('restoring: 0 of 1 file, 0 B of 10 B, 0 B/s');
  });

  it('never shows more than the total, although files were added and bytes grew', () => {
    const far = { what: 'storing', files: 2, filesDone: 3, bytes: 3, bytesDone: 5 };
    expect(progressLine({ ...far, bytesMoved: 5, elapsedMs: 1000 })).toBe(
      'storing: 2 of 2 files, 5 B, 5 B/s',
    );
  });

  it('appears after a second, even if nothing is finished by then', () => {
    progress.begin('storing', 2, 100 * MIB);
    progress.file().moved(20 * MIB);
    vi.advanceTimersByTime(999);
    expect(terminal).toBe('');
    vi.advanceTimersByTime(1);
    expect(screen(terminal)).toEqual([
      'capture: storing: 0 of 2 files, 20.0 MiB of 100.0 MiB, 20.0 MiB/s, 4.0 s left',
    ]);
  });

  it('counts what was under way before, but not in the rate, and subtracts what failed', () => {
    const early = progress.file();
    early.moved(50 * MIB);
    progress.begin('storing', 2, 100 * MIB);
    early.moved(10 * MIB);
    progress.file().moved(5 * MIB);
    vi.advanceTimersByTime(1000);
    expect(screen(terminal)[0]).toContain('65.0 MiB of 100.0 MiB, 15.0 MiB/s');
    early.failed();
    vi.advanceTimersByTime(250);
    expect(screen(terminal)).toEqual(['capture: storing: 0 of 2 files, 5.0 MiB of 100.0 MiB, 0 B/s']);
    early.done(60 * MIB);
    vi.advanceTimersByTime(250);
    expect(screen(terminal)[0]).toContain('1 of 2 files, 65.0 MiB of 100.0 MiB');
  });

  it('starts at zero for each piece of work, and never counts backwards', () => {
    progress.begin('restoring', 1, 5 * MIB);
    progress.file().done(5 * MIB);
    progress.end();
    const early = progress.file();
    early.moved(50 * MIB);
    progress.begin('storing', 2, 100 * MIB);
    early.failed();
    vi.advanceTimersByTime(1000);
    expect(screen(terminal)).toEqual(['capture: storing: 0 of 2 files, 0 B of 100.0 MiB, 0 B/s']);
  });

  it('is not drawn outside a piece of work: pushes while the task runs draw nothing', () => {
    const file = progress.file();
    file.moved(2);
    file.done(2);
    vi.advanceTimersByTime(10_000);
    expect(terminal).toBe('');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('never mixes with messages, shorter or longer ones, and disappears at the end', () => {
    progress.begin('storing', 2, 100 * MIB);
    vi.advanceTimersByTime(1500);
    say('short');
    vi.advanceTimersByTime(300);
    say('longer-than-a-line-of-the-terminal-'.repeat(5));
    vi.advanceTimersByTime(300);
    progress.end();
    say('stored 2 results');
    const rows = screen(terminal);
    expect(rows[0]).toBe('capture: short');
    expect(rows.slice(1, -2).join('')).toBe(`capture: ${'longer-than-a-line-of-the-terminal-'.repeat(5)}`);
    expect(rows.slice(-2)).toEqual(['capture: stored 2 results', '']);
    expect(rows.join('\n')).not.toContain('storing');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('leaves an empty line at the end', () => {
    progress.begin('storing', 2, 100 * MIB);
    vi.advanceTimersByTime(1000);
    expect(screen(terminal)).not.toEqual(['']);
    progress.end();
    expect(screen(terminal)).toEqual(['']);
  });

  it('stays on one line of a narrow terminal', () => {
    progress.begin('x'.repeat(100), 2, 100 * MIB);
    vi.advanceTimersByTime(2000);
    say('next');
    expect(screen(terminal)).toEqual(['capture: next', '']);
  });
});
