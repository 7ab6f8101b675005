// What the task writes to a pipe, with --log-output: it reaches the reader as without capture, and the store.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { outputKeys, outputOf, redirected } from './redirected.ts';
import { BIN, childrenOf, isAlive, openPlace, type Place, type Run, sidecarOf, until } from './support.ts';

const KiB = 2 ** 10;
const MiB = 2 ** 20;

let place: Place;
const readers = new Set<number>();
beforeEach(() => {
  place = openPlace();
});
afterEach(() => {
  for (const fd of readers) fs.closeSync(fd);
  readers.clear();
  place.close();
});

/** Messages go to a file: then nobody but the task writes to its stderr. */
const OPTIONS = ['--log-output', '--companion-interval', '1s', '--log-file', 'messages'];

const follow = (where: string, script: string, options: readonly string[] = []): Run =>
  redirected(place, where, script, [...OPTIONS, ...options]);
const stored = (stream: string): string => outputOf(place, stream).toString();
const messages = (): string => fs.readFileSync(place.at('messages'), 'utf8');
const go = (): void => fs.writeFileSync(place.at('go'), '');
const UNTIL_GO = 'until [ -e go ]; do sleep 0.05; done';

/** A pipe with a name, so that a test is its reader. */
function fifo(name = 'fifo'): string {
  const path = `${place.dir}/${name}`;
  execFileSync('mkfifo', [path]);
  return path;
}

/** A reader that reads only when a test says so. */
function openReader(path: string): number {
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  readers.add(fd);
  return fd;
}

function goAway(fd: number): void {
  readers.delete(fd);
  fs.closeSync(fd);
}

/** Reads from now on until the end of the file. */
async function readAll(fd: number): Promise<Buffer> {
  readers.delete(fd);
  const pieces: Buffer[] = [];
  const buffer = Buffer.alloc(64 * KiB);
  await until(() => {
    for (;;) {
      try {
        const length = fs.readSync(fd, buffer);
        // Before somebody writes there is no end.
        if (length === 0) return pieces.length > 0;
        pieces.push(Buffer.from(buffer.subarray(0, length)));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
        throw error;
      }
    }
  }, 'the end of the output');
  fs.closeSync(fd);
  return Buffer.concat(pieces);
}

/** A process of the task waits in the kernel until its pipe has room. */
const isBlocked = (run: Run): boolean => {
  const pids = childrenOf(run.pid).flatMap((pid) => [pid, ...childrenOf(pid)]);
  return pids.some((pid) => /pipe_write/.test(fs.readFileSync(`/proc/${pid}/wchan`, 'utf8')));
};

/** What the descriptors of a process lead to, by number. */
function descriptors(pid: number): ReadonlyMap<number, string> {
  const numbers = fs.readdirSync(`/proc/${pid}/fd`).map(Number);
  return new Map(
    numbers.flatMap((fd) => {
      try {
        return [[fd, fs.readlinkSync(`/proc/${pid}/fd/${fd}`)] as const];
      } catch {
        return []; // closed since
      }
    }),
  );
}

describe('a pipe of the task, with --log-output', () => {
  it('brings its reader each byte in order, also of stdout and stderr in one pipe, and the end of the file', async () => {
    const path = fifo();
    const reader = openReader(path);
    const script = 'i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done';
    const run = follow(`>${path} 2>&1`, script);
    const text = (await readAll(reader)).toString();
    expect(await run.status).toBe(0);
    expect(text).toBe(Array.from({ length: 500 }, (_, n) => `out ${n}\nerr ${n}\n`).join(''));
    expect(outputKeys(place)).toEqual(['0001.output.000000000000.zst']);
    expect(stored('output')).toBe(text);
  });

  it('brings 50 MB of any bytes through a shell pipeline unchanged, and stores them', async () => {
    execFileSync('sh', ['-c', `head -c 50000000 /dev/urandom >${place.dir}/blob`]);
    const got = `${place.dir}/got`;
    const run = follow(`| cat >${got}`, `cat ${place.dir}/blob`);
    expect(await run.status).toBe(0);
    const blob = fs.readFileSync(`${place.dir}/blob`);
    expect(fs.readFileSync(got).equals(blob)).toBe(true);
    expect(outputOf(place, 'stdout').equals(blob)).toBe(true);
  });

  it('is stored while the task runs, and after another sidecar has taken over', async () => {
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path}`, `echo one; ${UNTIL_GO}; echo two`);
    await until(() => stored('stdout') === 'one\n', 'the first line');
    const before = sidecarOf(run.pid);
    process.kill(before ?? -1, 'SIGKILL');
    await until(() => ![undefined, before].includes(sidecarOf(run.pid)), 'another sidecar');
    go();
    expect((await readAll(reader)).toString()).toBe('one\ntwo\n');
    expect(await run.status).toBe(0);
    expect(stored('stdout')).toBe('one\ntwo\n');
  });

  it('of a task that is killed brings and stores its last words, which status shows', async () => {
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path}`, 'head -c 60000 /dev/zero; echo; echo last words; kill -KILL $$');
    const text = (await readAll(reader)).toString();
    expect(await run.status).toBe(137);
    expect(text).toBe(`${'\0'.repeat(60_000)}\nlast words\n`);
    expect(stored('stdout')).toBe(text);
    const status = place.capture(['status', place.store, '0']);
    await status.status;
    expect(status.stdout()).toContain('last lines of stdout:\n');
    expect(status.stdout()).toContain('  last words\n');
  });

  it('makes the task wait for a slow reader, which gets everything in the end', async () => {
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path}`, 'seq 1 200000; touch wrote');
    await until(() => isBlocked(run), 'the task to wait');
    expect(fs.existsSync(place.at('wrote'))).toBe(false);
    const numbers = Array.from({ length: 200_000 }, (_, n) => `${n + 1}\n`).join('');
    expect((await readAll(reader)).toString()).toBe(numbers);
    expect(await run.status).toBe(0);
    expect(stored('stdout')).toBe(numbers);
  });

  it('whose reader has gone fails at the next write, as it does without capture', async () => {
    const script = `echo one; ${UNTIL_GO}; n=0; while echo more; do n=$((n+1)); echo $n >more; done`;
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path}`, script);
    await until(() => stored('stdout') === 'one\n', 'the first line');
    const task = childrenOf(run.pid).find((pid) => pid !== sidecarOf(run.pid)) ?? -1;
    const pipe = descriptors(task).get(1) ?? '';
    expect(pipe).toMatch(/^pipe:/);
    const isOurs = (): boolean => [...descriptors(run.pid).values()].includes(pipe);
    expect(isOurs()).toBe(true);
    goAway(reader);
    // Nothing was written since: it learns of that from the kernel.
    await until(() => !isOurs(), 'capture to see that the reader has gone');
    go();
    expect(await run.status).toBe(141);
    expect(fs.existsSync(place.at('more'))).toBe(false);
    expect(stored('stdout')).toBe('one\n');
  });

  it('whose reader goes while the task waits for it ends the task by SIGPIPE', async () => {
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path}`, 'exec yes');
    await until(() => isBlocked(run), 'the task to wait');
    goAway(reader);
    expect(await run.status).toBe(141);
  });

  it('whose reader reads only after the end still holds everything, and the run has ended', async () => {
    const path = fifo();
    const reader = openReader(path);
    // More than a pipe holds, and less than two.
    const run = follow(`>${path}`, 'head -c 120000 /dev/zero');
    expect(await run.status).toBe(0);
    expect(await readAll(reader)).toHaveLength(120_000);
    expect(outputOf(place, 'stdout')).toHaveLength(120_000);
  });

  it('whose reader never reads does not hang the run, where the kernel does not enlarge its pipe', async () => {
    // A full megabyte, which counts for pipe-max-size of who may not go beyond it.
    const enlarge = 'import fcntl,os; fcntl.fcntl(1, 1031, 1 << 20); os.write(1, b"x" * 1000000)';
    const path = fifo();
    openReader(path);
    const words = [BIN, '--to', place.store, '--task-name', 't', ...OPTIONS];
    const command = [...words, '--', 'python3', '-c', enlarge].map((word) => `'${word}'`).join(' ');
    const powerless = process.getuid?.() === 0 ? 'setpriv --bounding-set=-sys_resource,-sys_admin' : '';
    const run = place.exec(['sh', '-c', `exec ${powerless} ${command} >${path}`]);
    expect(await run.status).toBe(0);
    expect(messages()).toMatch(/nobody has read the last \d+\.\d KiB of stdout: they are only stored/);
    expect(outputOf(place, 'stdout')).toHaveLength(1_000_000);
  });

  it('is copied beside another one, even if Node has one thread', async () => {
    const [out, err] = [fifo('out'), fifo('err')];
    const [outReader, errReader] = [openReader(out), openReader(err)];
    const script = 'seq 1 50000; seq 1 60000 >&2; echo end';
    const run = redirected(place, `>${out} 2>${err}`, script, OPTIONS, { UV_THREADPOOL_SIZE: '1' });
    const [text, errors] = await Promise.all([readAll(outReader), readAll(errReader)]);
    expect(await run.status).toBe(0);
    expect(text.toString()).toMatch(/^1\n[^]*\n50000\nend\n$/);
    expect(errors.toString()).toMatch(/^1\n[^]*\n60000\n$/);
    expect([stored('stdout'), stored('stderr')]).toEqual([text.toString(), errors.toString()]);
  });

  it('of a launcher that is killed keeps what it has brought, and fails at the next write', async () => {
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path}`, `echo one; ${UNTIL_GO}; echo two; touch wrote`);
    await until(() => stored('stdout') === 'one\n', 'the first line');
    const sidecar = sidecarOf(run.pid) ?? -1;
    process.kill(run.pid, 'SIGKILL');
    // Not before its last thread has ended: until then its files are open.
    await until(() => run.child.signalCode !== null, 'the end of the launcher');
    go();
    expect((await readAll(reader)).toString()).toBe('one\n');
    await until(() => !isAlive(sidecar), 'the end of the sidecar');
    expect(fs.existsSync(place.at('wrote'))).toBe(false);
    expect(stored('stdout')).toBe('one\n');
  });

  it('does not touch a file beside it', async () => {
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path} 2>${place.dir}/err`, 'echo out; echo err >&2; readlink /proc/self/fd/2');
    expect((await readAll(reader)).toString()).toBe(`out\n${place.dir}/err\n`);
    expect(await run.status).toBe(0);
    expect([stored('stdout'), stored('stderr')]).toEqual([`out\n${place.dir}/err\n`, 'err\n']);
  });
});

describe('the copy', () => {
  /** The launcher's unnamed file. */
  const copyOf = (run: Run): string => {
    const [fd] = [...descriptors(run.pid)].find(([, to]) => to.includes('capture-spool-')) ?? [];
    return `/proc/${run.pid}/fd/${fd}`;
  };

  it('takes no more of the disk than is kept, while nothing is stored', async () => {
    const path = fifo();
    const reader = openReader(path);
    const options = ['--log-output-limit', '1MiB', '--companion-interval', '1h'];
    const run = follow(`>${path}`, `seq 1 3000000; touch wrote; ${UNTIL_GO}`, options);
    const reading = readAll(reader);
    await until(() => fs.existsSync(place.at('wrote')), 'the output');
    await until(() => fs.statSync(copyOf(run)).size === 22_888_896, 'the copy');
    expect(fs.statSync(copyOf(run)).blocks * 512).toBeLessThan(8 * MiB);
    go();
    const text = await reading;
    expect(await run.status).toBe(0);
    const kept = outputOf(place, 'stdout');
    expect(kept.length).toBeLessThanOrEqual(MiB);
    expect(kept.subarray(0, 256 * KiB).equals(text.subarray(0, 256 * KiB))).toBe(true);
    expect(text.subarray(-500 * KiB).equals(kept.subarray(-500 * KiB))).toBe(true);
  });

  it('gives back what is stored', async () => {
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path}`, `seq 1 3000000; touch wrote; ${UNTIL_GO}`);
    const reading = readAll(reader);
    await until(() => fs.existsSync(place.at('wrote')), 'the output');
    await until(() => {
      const { size, blocks } = fs.statSync(copyOf(run));
      return size === 22_888_896 && blocks * 512 < 4 * MiB;
    }, 'room');
    go();
    await reading;
    expect(await run.status).toBe(0);
  });

  it('that has no room costs the reader nothing, and a warning says that not all is stored', async () => {
    const path = fifo();
    const reader = openReader(path);
    const words = `ulimit -f 300; exec "$@" >${path}`;
    const capture = [BIN, '--to', place.store, '--task-name', 't', ...OPTIONS];
    const run = place.exec(['bash', '-c', words, 'bash', ...capture, '--', 'seq', '1', '200000']);
    expect((await readAll(reader)).toString()).toMatch(/\n200000\n$/);
    expect(await run.status).toBe(0);
    expect(messages()).toMatch(/stdout of the task is not stored completely: EFBIG/);
    expect(stored('stdout')).toMatch(/^1\n2\n/);
  });

  it('that cannot be made leaves the pipe the task’s own, and a warning says why', async () => {
    const path = fifo();
    const reader = openReader(path);
    const run = follow(`>${path}`, 'readlink /proc/self/fd/1', ['--spool', '/nonexistent']);
    expect((await readAll(reader)).toString()).toBe(`${path}\n`);
    expect(await run.status).toBe(0);
    expect(messages()).toMatch(/stdout is a pipe that cannot be copied \(ENOENT: .*\)/);
  });
});

describe('without --log-output', () => {
  it('nothing stands between the task and its reader', async () => {
    const run = redirected(place, '| cat', 'readlink /proc/self/fd/1; readlink /proc/$PPID/fd/1', []);
    expect(await run.status).toBe(0);
    const [task, launcher] = run.stdout().split('\n');
    expect(task).toMatch(/^pipe:\[\d+\]$/);
    expect(launcher).toBe(task);
  });
});
