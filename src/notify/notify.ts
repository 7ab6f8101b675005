// Reports how a run or an array ended: one POST of JSON, or one command with the same JSON on its standard input. A
// failed report does not change how the run ends.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { reasonOf } from '../model/errors.ts';
import type { NotifyTarget } from '../model/format/settings.ts';
import { type BackOff, linkSignals, pauseAfter } from '../model/waiting.ts';
import { clockMs } from '../native/clock.ts';
import { sendSignal } from '../native/processes.ts';

/** `done`: the task ended with 0 and everything is stored. `all-done`: a whole array. */
export type NotifyEvent = 'done' | 'failed' | 'all-done';

/** The JSON of a report. Fields may be added later. */
export interface Notification {
  readonly event: NotifyEvent;
  /** A sentence for people; chat services show the field of this name. */
  readonly text: string;
  readonly task: string;
  /** Only for a single run. */
  readonly index?: string | undefined;
  readonly status: number;
  /** The store of its objects. */
  readonly store: string;
  /** For a whole array: the number of indices in each state. */
  readonly counts?: Readonly<Record<string, number>>;
}

const TRIES = 3;
const ANSWER_MS = 10_000;
const COMMAND_MS = 30_000;
const BACK_OFF: BackOff = { firstMs: 1000, mostMs: 4000 };

export interface NotifyOptions {
  /** Environment of the command; default: capture's own. */
  readonly env?: NodeJS.ProcessEnv;
  /** Called with the command's process, in the turn of the event loop in which it starts. */
  readonly started?: (child: ChildProcess) => void;
}

/**
 * Undefined if the report was delivered, otherwise why not; never the address, which may contain a secret. The signal
 * aborts it: a run without time left reports nothing.
 */
export async function notify(
  target: NotifyTarget,
  told: Notification,
  signal: AbortSignal,
  { env = process.env, started = () => undefined }: NotifyOptions = {},
): Promise<string | undefined> {
  const body = JSON.stringify({ ...told, host: os.hostname(), at: new Date(clockMs()).toISOString() });
  try {
    return target.kind === 'url'
      ? await post(target.url, body, signal)
      : await command(target.command, told, { body, signal, env, started });
  } catch (error) {
    return reasonOf(error);
  }
}

/** Three tries; a status that will not change is final (RFC 9110, 4xx except 408 and 429). */
async function post(url: string, body: string, signal: AbortSignal): Promise<string | undefined> {
  let why: string | undefined;
  for (let tries = 0; tries < TRIES; tries += 1) {
    if (tries > 0) await sleep(pauseAfter(BACK_OFF, tries - 1), undefined, { signal });
    const answer = await postOnce(url, body, signal);
    if (answer === undefined) return undefined;
    why = answer.why;
    if (answer.isFinal) break;
  }
  return why;
}

async function postOnce(
  url: string,
  body: string,
  stop: AbortSignal,
): Promise<{ readonly why: string; readonly isFinal: boolean } | undefined> {
  const { signal, unlink } = linkSignals(stop, AbortSignal.timeout(ANSWER_MS));
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      redirect: 'error',
      signal,
    });
    await answer.body?.cancel();
    const { ok, status } = answer;
    if (ok) return undefined;
    return { why: `the answer was ${status}`, isFinal: status < 500 && status !== 408 && status !== 429 };
  } catch (error) {
    // fetch's own message says only that it failed.
    const { cause } = error as { readonly cause?: unknown };
    return { why: reasonOf(cause ?? error), isFinal: stop.aborted };
  } finally {
    unlink();
  }
}

interface CommandOptions extends Required<NotifyOptions> {
  readonly body: string;
  readonly signal: AbortSignal;
}

async function command(
  text: string,
  { event, index, status }: Notification,
  { body, signal, env, started }: CommandOptions,
): Promise<string | undefined> {
  signal.throwIfAborted();
  const child = spawn('/bin/sh', ['-c', text], {
    stdio: ['pipe', 2, 2],
    env: {
      ...env,
      CAPTURED_EVENT: event,
      CAPTURED_STATUS: String(status),
      ...(index === undefined ? {} : { CAPTURED_INDEX: index }),
    },
    // A process group of its own, so that everything it starts can be killed with it.
    detached: true,
  });
  started(child);
  const end = (): void => {
    if (child.pid !== undefined) sendSignal(-child.pid, 'SIGKILL');
  };
  const limit = setTimeout(end, COMMAND_MS);
  signal.addEventListener('abort', end, { once: true });
  // A command that does not read its input is fine, too (EPIPE).
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(`${body}\n`);
  await once(child, 'exit').finally(() => {
    clearTimeout(limit);
    signal.removeEventListener('abort', end);
  });
  if (child.exitCode === 0) return undefined;
  return child.exitCode === null ? `it was ended by ${child.signalCode}` : `it exited with ${child.exitCode}`;
}
