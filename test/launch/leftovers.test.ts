import fs from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Settings } from '../../src/model/format/settings.ts';
import { eachInItsLab, fixture, isRunning, stateOf, until } from './harness.ts';
import type { Lab } from './harness.ts';

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

let lab: Lab;
eachInItsLab((made) => {
  lab = made;
});

const drained = (): boolean => lab.heard().some((message) => message.kind === 'task-ended');

describe('what the task leaves running', () => {
  test.each([
    ['writes a declared file, although it is a daemon', [fixture('hold-open.sh')]],
    ['only has a declared file mapped for writing', [process.execPath, fixture('hold-mapping.mjs')]],
  ])('is waited for while it %s', async (_, holder) => {
    const capture = lab.capture([fixture('leave-running.sh'), ...holder, 'r.dat', 'go']);
    // The canary writes nothing: when it has been asked to end, the writer has been spared.
    await until('the canary is asked to end', () => lab.lines('canary').includes('asked'));
    fs.writeFileSync(lab.file('go'), '');
    expect(await capture.status).toBe(0);
    expect(lab.lines('finished')).toEqual(['yes']);
  });

  test('is waited for while it writes a declared file by a name that is not in the work directory', async () => {
    const outside = fs.mkdtempSync(`${lab.dir}-`);
    onTestFinished(() => fs.rmSync(outside, { recursive: true }));
    fs.writeFileSync(lab.file('r.dat'), '');
    fs.linkSync(lab.file('r.dat'), `${outside}/name`);
    const holder = [fixture('hold-open.sh'), `${outside}/name`, 'go'];
    const capture = lab.capture([fixture('leave-running.sh'), ...holder]);
    await until('the canary is asked to end', () => lab.lines('canary').includes('asked'));
    fs.writeFileSync(lab.file('go'), '');
    expect(await capture.status).toBe(0);
    expect(lab.lines('finished')).toEqual(['yes']);
  });

  /** Nobody else of its user may look into the holder; root only without CAP_SYS_PTRACE. */
  const holdHidden = (file: string, settings: Partial<Settings>, without = '-sys_ptrace') => {
    for (const name of ['r.dat', 'other.txt']) fs.writeFileSync(lab.file(name), '');
    if (isRoot) fs.chownSync(lab.file('r.dat'), NOBODY, NOBODY);
    return lab.shell(
      isRoot ? `exec setpriv --bounding-set=${without} "$@"` : 'exec "$@"',
      [fixture('leave-running.sh'), process.execPath, fixture('hold-hidden.mjs'), file, 'go'],
      { settings },
    );
  };

  describe.each([
    ['the kernel gives leases', '-sys_ptrace', true],
    // Another user's file, without CAP_LEASE.
    ['the kernel gives no leases', '-sys_ptrace,-lease', isRoot],
  ])('and nobody may look into it, where %s,', (_, without, isPossible) => {
    test.runIf(isPossible)('is waited for while somebody writes a declared file', async () => {
      const capture = holdHidden('r.dat', {}, without);
      await until('the canary is asked to end', () => lab.lines('canary').includes('asked'));
      fs.writeFileSync(lab.file('go'), '');
      expect(await capture.status).toBe(0);
      expect(lab.lines('finished')).toEqual(['yes']);
    });

    test.runIf(isPossible)('is ended when nobody writes a declared file', async () => {
      expect(await holdHidden('other.txt', { graceMs: 600_000 }, without).status).toBe(0);
      expect(lab.lines('finished')).toEqual([]);
    });
  });

  test('is waited for no longer than the grace', async () => {
    const task = [fixture('leave-running.sh'), fixture('hold-open.sh'), 'r.dat', 'never'];
    expect(await lab.capture(task, { settings: { graceMs: 300 } }).status).toBe(0);
    expect(lab.lines('finished')).toEqual([]);
  });

  test.each([
    ['r.dat', true],
    ['other.txt', false],
  ])('says when it was told to end if it wrote a declared file: %s', async (name, writes) => {
    const task = [fixture('leave-running.sh'), fixture('hold-open.sh'), name, 'never'];
    await lab.capture(task, { settings: { graceMs: 300 } }).status;
    const ended = lab.heard().find((message) => message.kind === 'task-ended');
    expect(typeof ended?.writersStoppedAtMs).toBe(writes ? 'number' : 'undefined');
  });

  test('is ended at once when it writes nothing that is declared', async () => {
    const task = [fixture('leave-running.sh'), fixture('hold-open.sh'), 'other.txt', 'never'];
    expect(await lab.capture(task, { settings: { graceMs: 600_000 } }).status).toBe(0);
  });

  test('is killed when it ignores SIGTERM, so that nothing spins on behind', async () => {
    const capture = lab.capture([fixture('leave-spinner.sh'), 'spinner']);
    await until('it spins', () => lab.lines('spinner').length === 1);
    const spinner = Number(lab.lines('spinner')[0]);
    expect(isRunning(spinner)).toBe(true);
    expect(await capture.status).toBe(0);
    expect(isRunning(spinner)).toBe(false);
  });

  test('is killed when it ignores SIGTERM and forks all the time, and no look can find it', async () => {
    const { child, status } = lab.capture([fixture('leave-chain.sh'), 'chain', 'end', 'late']);
    await new Promise((resolve) => child.once('exit', resolve));
    // Who has escaped writes now. It holds our pipe, so the status comes after it has ended.
    fs.writeFileSync(lab.file('end'), '');
    expect(await status).toBe(0);
    expect(lab.lines('chain')).toEqual(['up']);
    expect(fs.existsSync(lab.file('late'))).toBe(false);
  });

  test('is all gone before the final scan begins', async () => {
    const capture = lab.capture(['sh', '-c', 'sleep 600 & echo $! >pid; exit 4'], {
      sidecar: { drain: 'until-noticed' },
    });
    await until('drain', drained);
    expect(isRunning(Number(lab.lines('pid')[0]))).toBe(false);
    process.kill(capture.pid, 'SIGTERM');
    expect(await capture.status).toBe(4);
  });

  test('does not count what was our child before capture began', async () => {
    const shell = lab.shell('sleep 600 & echo $! >before; exec "$@"', ['true']);
    expect(await shellEnds(shell.child)).toBe(0);
    const before = Number(lab.lines('before')[0]);
    expect(isRunning(before)).toBe(true);
    process.kill(before, 'SIGKILL');
  });
});

describe('an orphan', () => {
  test('comes to the launcher and leaves no zombie', async () => {
    const script =
      'for n in 1 2 3 4 5; do (sh -c "echo \\$\\$ >>orphans; exit 5" &); done; until [ -e go ]; do sleep 0.05; done';
    const capture = lab.capture(['sh', '-c', script]);
    await until('all have run', () => lab.lines('orphans').length === 5);
    await until('none is left', () =>
      lab.lines('orphans').every((pid) => stateOf(Number(pid)) === undefined),
    );
    fs.writeFileSync(lab.file('go'), '');
    expect(await capture.status).toBe(0);
  });

  test('never costs the task its exit status', async () => {
    const script = 'for n in 1 2 3 4 5 6 7 8 9; do (sh -c "exit 5" &); done; exit 6';
    expect(await Promise.all([1, 2, 3, 4].map(() => lab.capture(['sh', '-c', script]).status))).toEqual([
      6, 6, 6, 6,
    ]);
  });
});

/** Its pipes stay open in what it left behind, so only the exit counts. */
function shellEnds(child: {
  once(event: 'exit', listener: (code: number | null) => void): unknown;
}): Promise<number | null> {
  return new Promise((resolve) => child.once('exit', resolve));
}
