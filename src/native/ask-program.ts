// Asks another program for a short answer, such as squeue. No shell: the words reach it as they are. It may hang, print
// without end, or leave a process behind that holds its pipes, as ssh does with ControlPersist: so time and output are
// bounded, and its exit ends the answer.
import { type ChildProcess, spawn } from 'node:child_process';
import { formatBytes, formatMs } from '../model/units.ts';
import { untilAborted } from '../model/waiting.ts';
import { sendSignal } from './processes.ts';

export interface AskOptions {
  /** Default: ours. */
  readonly env?: NodeJS.ProcessEnv;
  readonly withinMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Of its stdout; 1 MiB by default. */
  readonly mostBytes?: number;
  /** It stays in our process group, where it may ask at the terminal, and is killed alone. */
  readonly inForeground?: boolean;
  /** Called with its process, in the turn of the event loop in which it starts. */
  readonly started?: (child: ChildProcess) => void;
}

const MOST_BYTES = 2 ** 20;
/** Only its first line is shown. */
const MOST_OF_STDERR = 2 ** 16;
/** What it has printed is in the pipes when it exits. A process that it left behind may finish a line. */
const AFTER_EXIT_MS = 200;

/** Kill the programs that have not answered yet. */
const kills = new Set<() => void>();

function killAll(): void {
  for (const kill of kills) kill();
}

/** Calls `kill` when we exit, unless what it returns is called before. */
export function killedAtExit(kill: () => void): () => void {
  if (!process.listeners('exit').includes(killAll)) process.on('exit', killAll);
  kills.add(kill);
  return () => kills.delete(kill);
}

/**
 * What the program prints on stdout, in UTF-8. If it does not answer in time, prints too much, or `signal` aborts, it
 * is killed with its process group, and nothing waits for its end. It is also killed when we exit.
 *
 * @throws Error with the first line of its stderr if it fails, with ENOENT if it is not in PATH, with the reason of
 *   `signal` if that aborts.
 */
export async function askProgram(
  program: string,
  args: readonly string[],
  { env, withinMs, signal, mostBytes = MOST_BYTES, inForeground = false, started }: AskOptions,
): Promise<string> {
  signal?.throwIfAborted();
  // A group of its own: a site's wrapper of that name may have started the real program.
  const child: ChildProcess = spawn(program, args, {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: !inForeground,
  });
  started?.(child);
  const kill = (): void => {
    const { pid, exitCode, signalCode } = child;
    if (pid !== undefined && exitCode === null && signalCode === null)
      sendSignal(inForeground ? pid : -pid, 'SIGKILL');
  };
  const forget = killedAtExit(kill);
  const said = { stdout: '', stderr: '' };
  const timers: NodeJS.Timeout[] = [];
  const isOver = new Promise<void>((resolve, reject) => {
    child.once('error', reject).once('close', resolve);
    // Not at once: what is in the pipes is read after this turn's timers, even if the turn is late.
    child.once('exit', () => timers.push(setTimeout(() => setImmediate(resolve), AFTER_EXIT_MS)));
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said.stdout += text;
      if (said.stdout.length > mostBytes) reject(new Error(`it printed more than ${formatBytes(mostBytes)}`));
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      if (said.stderr.length < MOST_OF_STDERR) said.stderr += text;
    });
    const late = (): void => reject(new Error(`no answer within ${formatMs(withinMs)}`));
    timers.push(setTimeout(late, withinMs));
  });
  try {
    await untilAborted(isOver, signal);
  } finally {
    for (const timer of timers) clearTimeout(timer);
    kill();
    forget();
    child.stdout?.destroy();
    child.stderr?.destroy();
    child.unref();
  }
  if (child.exitCode === 0) return said.stdout;
  const how = child.exitCode === null ? `it was ended by ${child.signalCode}` : `exit ${child.exitCode}`;
  throw new Error(said.stderr.trim().split('\n', 1)[0] || how);
}
