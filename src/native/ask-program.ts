// Asks another program for a few lines, such as squeue. No shell: the words reach it as they are. It may hang, or print
// without end, so time and output are bounded.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { formatBytes, formatMs } from '../model/units.ts';
import { sendSignal } from './processes.ts';

interface AskOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly withinMs: number;
  readonly signal?: AbortSignal;
}

/** A line for each job of a large cluster fits. */
const MOST_BYTES = 64 * 2 ** 20;

/**
 * What the program prints on stdout, in UTF-8. Throws with the first line of its stderr if it fails, with ENOENT if it
 * is not in PATH, and the reason of `signal` if that aborts.
 */
export async function askProgram(
  program: string,
  args: readonly string[],
  { env, withinMs, signal }: AskOptions,
): Promise<string> {
  signal?.throwIfAborted();
  // A group of its own: a site's wrapper of that name may have started the real program, which holds the pipes.
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let why: string | undefined;
  const end = (reason: string): void => {
    why ??= reason;
    if (child.pid !== undefined) sendSignal(-child.pid, 'SIGKILL');
  };
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      if (said.stdout.length + said.stderr.length + text.length > MOST_BYTES)
        end(`it printed more than ${formatBytes(MOST_BYTES)}`);
      else said[name] += text;
    });
  const late = setTimeout(() => end(`no answer within ${formatMs(withinMs)}`), withinMs);
  const aborted = (): void => end('stopped');
  signal?.addEventListener('abort', aborted, { once: true });
  try {
    const [code, killedBy] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    signal?.throwIfAborted();
    if (code === 0 && why === undefined) return said.stdout;
    const how = code === null ? `it was ended by ${killedBy}` : `exit ${code}`;
    throw new Error(why ?? (said.stderr.trim().split('\n', 1)[0] || how));
  } finally {
    clearTimeout(late);
    signal?.removeEventListener('abort', aborted);
  }
}
