// Asks a metadata service on this machine, once or repeatedly. A request never goes through a proxy and is never
// redirected: the answer decides whether the task is stopped.
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { formatMs } from '../model/units.ts';
import { pauseAfter } from '../model/waiting.ts';
import type { Pace } from './source.ts';

/** Link-local, the same on EC2, GCE and Azure. A number, because a name would need a resolver. */
const METADATA_URL = 'http://169.254.169.254';

export interface Question {
  readonly method?: 'GET' | 'PUT' | 'POST';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For the whole answer, ms. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

/** An errno of connect(2) for a request without an answer in time, so callers can tell it from a refusal. */
const TIMED_OUT = 'ETIMEDOUT';
const LARGEST_BODY_BYTES = 64 * 1024;
/** A failing service is polled more rarely, up to this many times the usual interval. */
const MOST_BACK_OFF = 8;

/** capture's own agent: the global one obeys NODE_USE_ENV_PROXY (Node 24, "Built-in Proxy Support"). */
const agent = new http.Agent({ keepAlive: false });

/**
 * The service's answer, whatever its status. Rejects if there is none in time, if it is larger than 64 KiB, and on the
 * signal. The connection does not keep the process alive.
 */
export async function ask(base: URL, question: Question): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', headers, body, timeoutMs, signal } = question;
    const request = http.request(new URL(question.path, base), { method, headers, agent, signal });
    const giveUp = (message: string, code?: string): void => {
      reject(Object.assign(new Error(message), { code }));
      request.destroy();
    };
    const timer = setTimeout(() => {
      giveUp(`no answer within ${formatMs(timeoutMs)}`, TIMED_OUT);
    }, timeoutMs).unref();
    request.once('socket', (socket) => socket.unref());
    request.once('close', () => clearTimeout(timer));
    // A second error can follow the first; without a listener it would end the process.
    request.on('error', reject);
    request.once('response', (response) => {
      const chunks: Buffer[] = [];
      let sizeBytes = 0;
      response.on('error', reject);
      response.on('data', (chunk: Buffer) => {
        sizeBytes += chunk.length;
        if (sizeBytes > LARGEST_BODY_BYTES) giveUp('an answer of more than 64 KiB');
        else chunks.push(chunk);
      });
      response.once('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text });
      });
    });
    request.end(body);
  });
}

/** `ask`, with a failure as a text instead of an error. */
export async function tryAsk(base: URL, question: Question): Promise<Answer | { readonly failed: string }> {
  try {
    return await ask(base, question);
  } catch (error) {
    question.signal.throwIfAborted();
    return { failed: errnoOf(error) === TIMED_OUT ? reasonOf(error) : (errnoOf(error) ?? reasonOf(error)) };
  }
}

/** The address in `text`, or the link-local one if `text` is empty; or why the text is not an address. */
export function baseUrl(text: string | undefined): URL | { readonly wrong: string } {
  if (text === undefined || text === '') return new URL(METADATA_URL);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url?.protocol === 'http:' ? url : { wrong: `'${text}' is no http address` };
}

/** Tries a few times, for a service that is just starting; the last failure counts. */
export async function askAtFirst(
  base: URL,
  question: Question,
  pace: Pace,
): Promise<Answer | { readonly failed: string }> {
  let answer = await tryAsk(base, question);
  for (let tries = 1; tries < FIRST_TRIES && 'failed' in answer; tries += 1) {
    await pause(pace.pollMs, question.signal);
    answer = await tryAsk(base, question);
  }
  return answer;
}

/** A lost packet, or a busy start of capture, must not cost the notices of the whole run. */
const FIRST_TRIES = 3;

/** Repeats a round until the signal, which rejects. After failed rounds the pause grows. */
export async function poll(
  round: () => Promise<'heard' | 'failed'>,
  { pollMs }: Pace,
  signal: AbortSignal,
): Promise<never> {
  const backOff = { firstMs: pollMs, mostMs: pollMs * MOST_BACK_OFF };
  for (let failures = 0; ;) {
    failures = (await round()) === 'heard' ? 0 : failures + 1;
    await pause(pauseAfter(backOff, failures), signal);
  }
}

/** Does not keep the process alive. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { ref: false, signal });
}

/** undefined if the text is not JSON: no schema accepts that. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
