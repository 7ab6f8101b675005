// Whether a process may still be at work in a directory: real ones, which have nothing else of it than what is asked.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { pidNamespace, type Sought, useOfDirectory } from '../../src/native/directory-use.ts';
import { readStat } from '../../src/native/processes.ts';
import { isAlive, until } from '../e2e/support.ts';
import { NOBODY, tmpdirForAll } from '../support/other-user.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let base: TestDir;
let dir: string;
let fd: number;
let sought: Sought;
let child: ChildProcess | undefined;
beforeEach(() => {
  base = testDir(tmpdirForAll());
  fs.chmodSync(base.path, 0o755);
  dir = fs.mkdtempSync(path.join(base.path, 'capture-work.'));
  const environment = new Set(['CAPTURED_RUN=here']);
  fd = fs.openSync(dir, 'r');
  sought = { dir: { fd, path: dir }, environment, sinceTicks: readStat(process.pid)?.startTicks ?? 0 };
});
afterEach(async () => {
  child?.kill('SIGKILL');
  if (child?.exitCode === null && child.signalCode === null) await once(child, 'exit');
  child = undefined;
  fs.closeSync(fd);
  base.remove();
});

interface Start {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly uid?: number;
}

/** Resolves when the command says that it is ready. It waits for its input then. */
async function begin(
  command: readonly string[],
  { cwd = '/', env = {}, uid = 0 }: Start = {},
): Promise<void> {
  const [program = '', ...args] = command;
  const own = uid === 0 ? {} : { uid, gid: uid };
  child = spawn(program, args, {
    cwd,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
    ...own,
  });
  if (child.stdout !== null) await once(child.stdout, 'data');
}

const READY = 'echo ready; read line';
/** What comes before is done as root. */
const asOther = (script: string): readonly string[] => [
  'sh',
  '-c',
  `${script}; exec setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups sh -c '${READY}'`,
];
const sh = (script: string): readonly string[] => ['sh', '-c', `${script}; ${READY}`];
/** The file is not open any more. */
const MAPS = `import ctypes, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 4096)
call = ctypes.CDLL(None).mmap; call.restype = ctypes.c_void_p
call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
call(None, 4096, 3, 1, fd, 0); os.close(fd)
if len(sys.argv) > 2: os.setuid(int(sys.argv[2]))
print('ready', flush=True); sys.stdin.read()`;

it('is none if no process has to do with it', async () => {
  await begin(sh(':'));
  expect(await useOfDirectory(sought)).toBe('none');
});

it.each<[string, () => Promise<void>]>([
  ['works in it', () => begin(sh(':'), { cwd: dir })],
  ['works in a directory that is removed', () => begin(sh(`mkdir ${dir}/3; cd ${dir}/3; rmdir ${dir}/3`))],
  ['has a file open there', () => begin(sh(`exec 5>${dir}/file`))],
  ['has mapped a file there', () => begin(['python3', '-c', MAPS, `${dir}/file`])],
  ['was started for its task', () => begin(sh(':'), { env: { CAPTURED_RUN: 'here' } })],
])('is some if a process %s', async (_, start) => {
  await start();
  expect(await useOfDirectory(sought)).toBe('some');
});

it.runIf(process.getuid?.() === 0)(
  'is some if the directory is mounted for a process, elsewhere, though nothing of it is open',
  async () => {
    const at = path.join(base.path, 'at');
    fs.mkdirSync(at);
    await begin(['unshare', '-m', ...sh(`mount --bind ${dir} ${at}; cd /`)]);
    expect(await useOfDirectory(sought)).toBe('some');
  },
);

/** Another user's directory of the same name, with a file and a program of the same names. */
function twin(): string {
  const at = path.join(base.path, 'theirs', path.basename(dir));
  fs.mkdirSync(at, { recursive: true });
  for (const one of [at, dir]) {
    fs.writeFileSync(path.join(one, 'file'), '');
    fs.copyFileSync('/bin/sh', path.join(one, 'sh'));
    fs.chmodSync(path.join(one, 'sh'), 0o755);
  }
  for (const one of ['', 'file']) fs.chownSync(path.join(at, one), NOBODY, NOBODY);
  return at;
}

describe.runIf(process.getuid?.() === 0)('of another user', () => {
  it.each<[string, (at: string) => Promise<void>]>([
    ['works', (at) => begin(sh(':'), { cwd: at, uid: NOBODY })],
    ['has a file open', (at) => begin(sh(`exec 5>${at}/file`), { uid: NOBODY })],
    ['has mapped a file', (at) => begin(['python3', '-c', MAPS, `${at}/file`], { uid: NOBODY })],
    ['runs a program', (at) => begin([`${at}/sh`, ...sh(':').slice(1)], { uid: NOBODY })],
    ['has mounted', (at) => begin(['unshare', '-m', ...asOther(`mount --bind ${at} ${at}`)])],
  ])('a process that %s in another directory of that name does not use it', async (_, start) => {
    const at = twin();
    await start(at);
    expect(await useOfDirectory(sought)).toBe('none');
  });

  it('a process does not use it for what somebody has put into its environment', async () => {
    await begin(sh(':'), { uid: NOBODY, env: { CAPTURED_RUN: 'here' } });
    expect(await useOfDirectory(sought)).toBe('none');
  });

  /** As a task does that gives up its rights. */
  it.each<[string, () => Promise<void>]>([
    ['works in it', () => begin(asOther(`cd ${dir}`))],
    ['has a file open in it', () => begin(asOther(`exec 5>${dir}/file`))],
    ['has mapped a file of it', () => begin(['python3', '-c', MAPS, `${dir}/file`, String(NOBODY)])],
    ['has it mounted', () => begin(['unshare', '-m', ...asOther(`mount --bind ${dir} /mnt`)])],
  ])('a process that was ours and %s uses it', async (_, start) => {
    twin();
    await start();
    expect(await useOfDirectory(sought)).toBe('some');
  });
});

/** Of a user's process that this user may not look into, as nobody may who may not read its program. Resolves to it. */
async function beginHidden(): Promise<{ readonly pid: number; readonly startTicks: number }> {
  const program = path.join(base.path, 'program');
  fs.copyFileSync('/bin/cat', program);
  fs.chmodSync(program, 0o711);
  await begin(['sh', '-c', `echo ready; exec ${program}`], { uid: NOBODY });
  const pid = child?.pid ?? 0;
  await until(() => readStat(pid)?.name === 'program', 'it is that program');
  return { pid, startTicks: readStat(pid)?.startTicks ?? 0 };
}

async function asNobody(look: () => Promise<void>): Promise<void> {
  process.seteuid?.(NOBODY);
  try {
    await look();
  } finally {
    process.seteuid?.(0);
  }
}

it.runIf(process.getuid?.() === 0)(
  'is in doubt if a process of our user cannot be looked into, unless it was at work before, or is of another user',
  async () => {
    const { startTicks } = await beginHidden();
    expect(await useOfDirectory(sought)).toBe('none');
    await asNobody(async () => {
      expect(await useOfDirectory({ ...sought, sinceTicks: startTicks })).toBe('doubt');
      expect(await useOfDirectory({ ...sought, sinceTicks: startTicks + 1 })).toBe('none');
    });
  },
);

it.runIf(process.getuid?.() === 0)('is none if what could not be looked into has ended since', async () => {
  const { pid, startTicks } = await beginHidden();
  const look = fs.readlinkSync;
  const looks = vi.spyOn(fs, 'readlinkSync').mockImplementation((link, ...rest) => {
    try {
      return look(link, ...rest);
    } catch (error) {
      if (link === `/proc/${pid}/cwd`) {
        child?.kill('SIGKILL');
        while (isAlive(pid));
      }
      throw error;
    }
  });
  onTestFinished(() => looks.mockRestore());
  await asNobody(async () => {
    expect(await useOfDirectory({ ...sought, sinceTicks: startTicks })).toBe('none');
  });
});

it('knows its PID namespace', () => {
  expect(pidNamespace()).toMatch(/^pid:\[\d+\]$/);
});
