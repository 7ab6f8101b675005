// Runs launch() in a real process beside a fake sidecar, and waits for what both do.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { ToSidecar } from '../../src/model/format/messages.ts';
import { isReported, JOB_SIGNALS } from '../../src/model/relay.ts';
import type { Settings } from '../../src/model/format/settings.ts';

export const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));

/** Says how the fake sidecar behaves; without anything it records, and agrees to all. */
export interface FakeSidecar {
  readonly opening?: object | 'none';
  readonly dieOn?: ToSidecar['kind'];
  readonly fence?: boolean;
  readonly drain?: 'until-noticed';
  readonly status?: number;
  /** What it says waits for this file. */
  readonly after?: string;
  /** Sent when the task has started; the notice's instant is so many ms later. */
  readonly says?: readonly {
    readonly kind: string;
    readonly inMs?: number;
    readonly notice?: object;
    readonly ms?: number;
  }[];
}

export interface CaptureOptions {
  readonly settings?: Partial<Settings>;
  readonly sidecar?: FakeSidecar;
  readonly env?: NodeJS.ProcessEnv;
  readonly stdin?: 'pipe' | 'ignore';
}

export interface Capture {
  readonly child: ChildProcess;
  readonly pid: number;
  /** Resolves to the exit status as a shell has it. */
  readonly status: Promise<number>;
  stdout(): string;
  stderr(): string;
  /** What the sidecars heard, oldest first. */
  heard(): readonly (ToSidecar & { readonly sidecar: number })[];
}

export interface Lab {
  readonly dir: string;
  file(name: string): string;
  lines(name: string): readonly string[];
  /** Command line and environment that run capture with this task. */
  command(
    task: readonly string[],
    options?: CaptureOptions,
  ): { readonly argv: readonly string[]; readonly env: NodeJS.ProcessEnv };
  capture(task: readonly string[], options?: CaptureOptions): Capture;
  /** The same below a shell: `"$@"` in the script is capture with this task. */
  shell(script: string, task: readonly string[], options?: CaptureOptions): Capture;
  heard: Capture['heard'];
  close(): void;
}

export interface Launcher {
  /** The shim. */
  readonly file: string;
  /** What it runs with Node. */
  readonly program: string;
  remove(): void;
}

/**
 * bin/capture with a program that runs launch(). It stands below the project, so that native packages resolve.
 */
export async function buildLauncher(): Promise<Launcher> {
  const cache = path.resolve('node_modules/.cache');
  fs.mkdirSync(cache, { recursive: true });
  const dir = fs.mkdtempSync(path.join(cache, 'capture-launch-'));
  const program = path.join(dir, 'dist/capture.cjs');
  await build({
    entryPoints: [fixture('launcher.ts')],
    outfile: program,
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    // Binaries that ssh2 takes if they are there.
    external: ['*.node'],
    define: { 'import.meta.url': 'thisUrl', CAPTURE_ROOT: JSON.stringify(path.resolve('.')) },
    banner: { js: "const thisUrl = require('node:url').pathToFileURL(__filename).href;" },
  });
  fs.mkdirSync(path.join(dir, 'bin'));
  const file = path.join(dir, 'bin/capture');
  fs.copyFileSync('bin/capture', file);
  return { file, program, remove: () => fs.rmSync(dir, { recursive: true, force: true }) };
}

/** One launcher for the tests of a file, a lab of its own for each: `take` gets them before each test. */
export function eachInItsLab(take: (lab: Lab, launcher: Launcher) => void): void {
  let launcher: Launcher;
  let lab: Lab;
  beforeAll(async () => {
    launcher = await buildLauncher();
  });
  afterAll(() => launcher.remove());
  beforeEach(() => {
    lab = createLab(launcher.file);
    take(lab, launcher);
  });
  afterEach(() => lab.close());
}

export function createLab(launcher: string): Lab {
  const dir = fs.mkdtempSync(path.join(fs.realpathSync(os.tmpdir()), 'capture-launch-'));
  const file = (name: string): string => path.join(dir, name);
  const text = (name: string): string =>
    fs.existsSync(file(name)) ? fs.readFileSync(file(name), 'utf8') : '';
  const lines = (name: string): readonly string[] =>
    text(name)
      .split('\n')
      .filter((line) => line !== '');
  const heard: Capture['heard'] = () => lines('heard.jsonl').map((line) => JSON.parse(line));
  const command: Lab['command'] = (task, options = {}) => {
    const plan = {
      log: file('heard.jsonl'),
      token: path.basename(dir),
      reports: JOB_SIGNALS.filter(isReported),
      ...options.sidecar,
    };
    const settings = { ...baseSettings(dir), ...options.settings };
    return {
      argv: [launcher, JSON.stringify(settings), fixture('fake-sidecar.mjs'), ...task],
      env: {
        ...process.env,
        ...options.env,
        FAKE_SIDECAR: JSON.stringify(plan),
        JOB_SIGNALS: JOB_SIGNALS.join(' '),
      },
    };
  };
  const run = ([file = '', ...args]: readonly string[], options: CaptureOptions = {}): Capture => {
    const { env } = command([], options);
    const child = spawn(file, args, { env, cwd: dir, stdio: [options.stdin ?? 'ignore', 'pipe', 'pipe'] });
    return { child, pid: child.pid ?? 0, heard, ...watch(child) };
  };
  return {
    dir,
    file,
    lines,
    command,
    heard,
    capture: (task, options) => run(command(task, options).argv, options),
    shell: (script, task, options) =>
      run(['sh', '-c', script, 'sh', ...command(task, options).argv], options),
    close: () => fs.rmSync(dir, { recursive: true, force: true }),
  };
}

/** Collects what a process writes and how it ends. */
export function watch(child: ChildProcess): Pick<Capture, 'status' | 'stdout' | 'stderr'> {
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk) => (stdout += chunk));
  child.stderr?.on('data', (chunk) => (stderr += chunk));
  const status = new Promise<number>((resolve) => {
    child.once('close', (code, signal) => resolve(code ?? 128 + os.constants.signals[signal ?? 'SIGHUP']));
  });
  return { status, stdout: () => stdout, stderr: () => stderr };
}

/** Waits for a condition, and says what it was when it never comes true. */
export async function until(what: string, condition: () => boolean, boundMs = 20_000): Promise<void> {
  const endsAtMs = Date.now() + boundMs;
  while (!condition()) {
    if (Date.now() > endsAtMs) throw new Error(`not within ${boundMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** False for a zombie too. */
export function isRunning(pid: number): boolean {
  const state = stateOf(pid);
  return state !== undefined && state !== 'Z';
}

export function stateOf(pid: number): string | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
  } catch {
    return undefined;
  }
}

function baseSettings(workdir: string): Settings {
  return {
    manifest: {
      results: ['*.dat'],
      checkpoints: [],
      inputs: [],
      companions: [],
      exclude: [],
      newest: undefined,
    },
    to: { url: `file://${workdir}/store`, flags: [], unfenced: false },
    perishableStore: false,
    from: undefined,
    identity: {
      taskName: 'task',
      index: '3',
      indexSource: undefined,
      runId: undefined,
      argv: [],
      scheduler: {},
    },
    workdir,
    sharedWorkdir: false,
    reclaim: 'auto',
    compression: { kind: 'none' },
    companionIntervalMs: 60_000,
    checkpointSettleMs: 2000,
    checkpointLast: undefined,
    generations: 2,
    graceMs: 20_000,
    drainTimeoutMs: 60_000,
    rescanMs: 60_000,
    restore: true,
    skipDone: false,
    onLocal: 'stored',
    preemptedStatus: 75,
    endRules: { requireResults: false, doneWhen: undefined, againStatuses: [], trustedStatuses: [] },
    notices: { sources: [], signals: [], tell: 'auto' },
    verify: undefined,
    workers: 1,
    spoolDir: undefined,
    spoolLimitBytes: 0,
    log: { level: 'info', format: 'text', file: undefined },
  };
}
