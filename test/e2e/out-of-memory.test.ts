// The kernel's kill for lack of memory has a name. The cgroup is real; where none can be made, the test is skipped.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BIN, openPlace, type Place, type Run } from './support.ts';

const MIB = 2 ** 20;
const LIMIT = 300 * MIB;

interface Cgroup {
  readonly dir: string;
  close(): void;
}

/** A cgroup with a limit; undefined if we may not make one here. */
function openCgroup(): Cgroup | undefined {
  const isLegacy = fs.existsSync('/sys/fs/cgroup/memory/cgroup.procs');
  const root = isLegacy ? '/sys/fs/cgroup/memory' : '/sys/fs/cgroup';
  const dir = path.join(root, `capture-test-${process.pid}`);
  try {
    fs.mkdirSync(dir);
  } catch {
    return undefined;
  }
  const close = (): void => fs.rmdirSync(dir);
  const limit = isLegacy ? 'memory.limit_in_bytes' : 'memory.max';
  const swap = isLegacy ? 'memory.memsw.limit_in_bytes' : 'memory.swap.max';
  if (!fs.existsSync(path.join(dir, limit))) {
    // A mount of another kind, or the controller is not given to the children of the root.
    close();
    return undefined;
  }
  fs.writeFileSync(path.join(dir, limit), String(LIMIT));
  if (fs.existsSync(path.join(dir, swap)))
    fs.writeFileSync(path.join(dir, swap), String(isLegacy ? LIMIT : 0));
  return { dir, close };
}

const probe = openCgroup();
probe?.close();

/** Its shell goes on after the process that needs too much. */
const GREEDY = `perl -e '$x = "x"; $x x= 600 << 20; print length $x'`;

describe.skipIf(probe === undefined)('a process that the kernel kills for lack of memory', () => {
  let place: Place;
  let cgroup: Cgroup;
  beforeEach(() => {
    place = openPlace();
    const made = openCgroup();
    if (made === undefined) throw new Error('no cgroup can be made any more');
    cgroup = made;
  });
  afterEach(async () => {
    place.close();
    // It cannot be removed before its last process has ended.
    await vi.waitFor(() => cgroup.close(), 10_000);
  });

  function run(options: readonly string[], task: string): Run {
    const line = [BIN, '--to', place.store, '--task-name', 't', '--index', '3', ...options, '--'];
    const enter = `echo $$ > ${cgroup.dir}/cgroup.procs; exec "$@"`;
    return place.exec(['sh', '-c', enter, 'sh', ...line, 'sh', '-c', task]);
  }

  it('is named where its shell ends with another status: in the last line, the record, status and --suggest', async () => {
    const greedy = run(['-r', 'r.dat'], `${GREEDY}; exit 1`);
    expect(await greedy.status, greedy.stderr()).toBe(1);
    const text =
      /out of memory: the kernel killed 1 process of the task \(limit 300\.0 MiB, peak (29\d\.\d|300\.0) MiB\)/;
    expect(greedy.stderr()).toMatch(new RegExp(`failed: the task ended with 1; ${text.source}`));
    expect(greedy.stderr()).toContain('\n  try: request more memory');
    const { end, resources } = place.records().at(-1)?.record ?? {};
    expect(end?.reason).toMatch(text);
    expect(end?.outOfMemory).toMatchObject({ kills: 1, limitBytes: LIMIT });
    expect(resources?.job?.limitBytes).toBe(LIMIT);
    expect(resources?.job?.peakMemoryBytes).toBeGreaterThan(0.95 * LIMIT);

    const capture = async (...words: readonly string[]): Promise<string> => {
      const one = place.exec([BIN, ...words]);
      await one.status;
      return one.stdout() + one.stderr();
    };
    expect(await capture('status', place.store)).toMatch(/^3 +failed 1, out of memory /m);
    expect(await capture('status', place.store, '3')).toMatch(text);
    const suggested = await capture('status', place.store, '--suggest');
    expect(suggested).toContain('killed for lack of memory: 3');
    const mib = Number(/--mem=(\d+)M/.exec(suggested)?.[1]);
    expect(mib).toBeGreaterThanOrEqual(384);
  });

  it('is named where the task itself is killed', async () => {
    const greedy = run(['-r', 'r.dat'], `exec ${GREEDY}`);
    expect(await greedy.status, greedy.stderr()).toBe(137);
    expect(greedy.stderr()).toContain(
      'failed: SIGKILL ended the task, exit 137; out of memory: the kernel killed',
    );
  });

  it('is a warning where the task goes on, and ends well', async () => {
    const greedy = run(['-r', 'r.dat'], `${GREEDY}; echo 1 > r.dat`);
    expect(await greedy.status, greedy.stderr()).toBe(0);
    expect(greedy.stderr()).toContain(
      'warning: the task ended with 0, and was out of memory: the kernel killed',
    );
    expect(place.records().at(-1)?.record).toMatchObject({
      kind: 'done',
      end: { outOfMemory: { kills: 1 } },
    });
  });

  it('is only possible, or probable, where others use the same memory', async () => {
    const other = place.exec(['sh', '-c', `echo $$ > ${cgroup.dir}/cgroup.procs; exec sleep 600`]);
    const members = (): string => fs.readFileSync(path.join(cgroup.dir, 'cgroup.procs'), 'utf8');
    await vi.waitFor(() => expect(members()).toContain(`${other.pid}\n`), 10_000);
    const possible = run([], `${GREEDY}; exit 1`);
    expect(await possible.status, possible.stderr()).toBe(1);
    expect(possible.stderr()).toContain(
      'the task ended with 1; perhaps out of memory: the kernel killed 1 process of this task, or of others',
    );
    const probable = run([], GREEDY);
    expect(await probable.status, probable.stderr()).toBe(137);
    expect(probable.stderr()).toContain(
      '; probably out of memory: the kernel killed 1 process of this task, or',
    );
    other.child.kill();
    await other.status;
  });

  it('is not named after a SIGKILL of somebody else', async () => {
    const killed = run([], 'kill -9 $$');
    expect(await killed.status, killed.stderr()).toBe(137);
    expect(killed.stderr()).not.toContain('out of memory');
    expect(place.records().at(-1)?.record.end?.outOfMemory).toBeUndefined();
  });
});
