// A start that fails after its claim: the store says so, and the index does not count as running.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inNamespace } from '../support/namespace.ts';
import { BIN, openPlace, until, type Place, type Run } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const OPTIONS = ['--task-name', 't', '-r', 'r.dat', '-k', 'k.chk'];
const DIR = '.capture/t/0';
const run = (script: string, ...more: readonly string[]): Run =>
  place.run([...OPTIONS, ...more], ['sh', '-c', script]);
const recordNames = (): readonly string[] =>
  fs.readdirSync(`${place.store}/${DIR}`).map((name) => name.replace(/\.json$/, ''));
const last = (): unknown => place.records().at(-1)?.record;

/** In a work directory that has room for `.capture/`, and for no file in it with content. */
function runInFull(script: string, ...more: readonly string[]): Run {
  const command = [BIN, '--to', place.store, ...OPTIONS, ...more, '--', 'sh', '-c', script];
  const before = 'mkdir -m 700 .capture; dd if=/dev/zero of=fill bs=4k 2>/dev/null || true';
  return place.exec(inNamespace({ tmpfs: { [place.work]: '1m' }, before }, command, place.work));
}

async function status(...args: readonly string[]): Promise<string> {
  const shown = place.capture(['status', place.store, '--task-name', 't', ...args]);
  await shown.status;
  return shown.stdout();
}

describe('a start without room in the work directory', () => {
  it('is failed 69 with the reason, and the next one is done', async () => {
    const full = runInFull('echo started');
    expect(await full.status, full.stderr()).toBe(69);
    expect(full.stdout()).toBe('');
    const reason = expect.stringMatching(/cannot write in the work directory .*ENOSPC/);
    expect(last()).toMatchObject({ kind: 'failed', attempt: 1, end: { status: 69, reason } });
    expect(await status()).toMatch(/failed 69, disk full .*\n1 index: 1 failed/);
    expect(await status('0')).toMatch(
      /failed: capture exited 69; cannot write in the work directory .*ENOSPC/,
    );
    const next = run('echo 1 > r.dat', '--skip-done');
    expect(await next.status, next.stderr()).toBe(0);
    expect(last()).toMatchObject({ kind: 'done', attempt: 2 });
  });

  it('does not speak against the checkpoint that it restored: no task has run from it', async () => {
    const first = run(`for i in 1 2; do echo $i > k.chk; "${BIN}" flush; done; exit 3`);
    expect(await first.status, first.stderr()).toBe(3);
    for (const _ of [1, 2]) {
      place.freshWork();
      // Nothing can be written there, which shows only after the restore.
      fs.mkdirSync(place.at('.capture/attempt.json/x'), { recursive: true });
      fs.chmodSync(place.at('.capture'), 0o700);
      const refused = run('echo started');
      expect(await refused.status, refused.stderr()).toBe(64);
      expect(fs.readFileSync(place.at('k.chk'), 'utf8')).toBe('2\n');
      expect(last()).toMatchObject({ kind: 'failed', end: { status: 64 } });
    }
    place.freshWork();
    const next = run('cat k.chk');
    expect(await next.status, next.stderr()).toBe(0);
    expect(next.stdout()).toBe('2\n');
  });

  it('leaves an index done that is done', async () => {
    expect(await run('echo 1 > r.dat').status).toBe(0);
    place.freshWork();
    const full = runInFull('echo started');
    expect(await full.status, full.stderr()).toBe(69);
    expect(recordNames().filter((name) => /^0002-.*failed/.test(name))).toEqual([]);
    const again = run('echo started', '--skip-done');
    expect(await again.status).toBe(0);
    expect(again.stdout()).toBe('');
  });
});

describe('a start that is ended while it restores', () => {
  beforeEach(async () => {
    await run('echo 1 > k.chk; exit 3').status;
    place.freshWork();
  });

  it.each<[NodeJS.Signals, number, string]>([
    ['SIGTERM', 75, 'preempted'],
    ['SIGINT', 130, 'failed'],
  ])('by %s exits %i, and its last record says so', async (signal, exit, kind) => {
    const check = `echo > ${place.dir}/checking; exec sleep 600`;
    const stopped = run('echo started', '--verify-checkpoint', check);
    await until(() => fs.existsSync(`${place.dir}/checking`), 'the check');
    stopped.child.kill(signal);
    expect(await stopped.status, stopped.stderr()).toBe(exit);
    const reason = `${signal} before the task was started`;
    expect(last()).toMatchObject({ kind, attempt: 2, end: { status: exit, reason } });
  });

  it('by the death of its launcher says so', async () => {
    const check = `echo > ${place.dir}/checking; exec sleep 600`;
    const killed = run('echo started', '--verify-checkpoint', check);
    await until(() => fs.existsSync(`${place.dir}/checking`), 'the check');
    killed.child.kill('SIGKILL');
    await until(() => recordNames().includes('0002-000002.failed-70'), 'the last record');
    expect(last()).toMatchObject({ end: { reason: 'the launcher is gone: nothing was started' } });
  });
});
