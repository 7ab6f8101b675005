// The user's bandwidth limit (--bandwidth). A body, or a part of one, is sent as soon as the earlier ones would have
// passed a link of that speed; tasks that share a sidecar share that link. The limit is lifted after a notice: bytes
// that are not sent by the deadline are lost.
import { whileLinked } from '../model/waiting.ts';
import { clockMs } from '../native/clock.ts';

/** The limited link; all tasks that share a sidecar have one. */
export interface LimitedLink {
  /** When it is free again, ms since the epoch. */
  freeMs: number;
}

export class Bandwidth {
  readonly #bytesPerMs: number;
  readonly #link: LimitedLink;
  /** Aborts when the limit is lifted: waiting bytes are sent. */
  #lifted = new AbortController();

  /** Lifting and restoring affects only this one, not others on the link. */
  constructor(bytesPerS: number, link: LimitedLink = { freeMs: 0 }) {
    this.#bytesPerMs = bytesPerS / 1000;
    this.#link = link;
  }

  /** Undefined while the limit is lifted. */
  get bytesPerS(): number | undefined {
    return this.#lifted.signal.aborted ? undefined : this.#bytesPerMs * 1000;
  }

  /** Resolves when this many bytes may be sent, in the order of the calls; rejects with the signal's reason. */
  async waitFor(bytes: number, signal?: AbortSignal): Promise<void> {
    const lifted = this.#lifted.signal;
    if (lifted.aborted) return;
    const nowMs = clockMs();
    const link = this.#link;
    const startMs = Math.max(nowMs, link.freeMs);
    link.freeMs = startMs + bytes / this.#bytesPerMs;
    if (startMs === nowMs) return;
    await whileLinked([signal, lifted], (either) => elapsed(startMs - nowMs, either));
    // Bytes that were given up, or are sent without a limit, free their time on the link for later ones.
    if (signal?.aborted === true || lifted.aborted) link.freeMs -= bytes / this.#bytesPerMs;
    signal?.throwIfAborted();
  }

  /** From now on nothing waits. True if the limit was in force. */
  lift(): boolean {
    const held = !this.#lifted.signal.aborted;
    this.#lifted.abort();
    return held;
  }

  /** The limit is in force again. */
  restore(): void {
    if (!this.#lifted.signal.aborted) return;
    this.#lifted = new AbortController();
    this.#link.freeMs = 0;
  }
}

/** Resolves after `ms`, or when the signal aborts. */
function elapsed(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** The body, at the limited rate; unchanged if there is no limit. */
export async function atLimitedRate(
  bandwidth: Bandwidth | undefined,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<Uint8Array | AsyncIterable<Uint8Array>> {
  if (bandwidth === undefined) return body;
  if (!(body instanceof Uint8Array)) return paced(bandwidth, body, signal);
  await bandwidth.waitFor(body.length, signal);
  return body;
}

async function* paced(
  bandwidth: Bandwidth,
  parts: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  for await (const part of parts) {
    await bandwidth.waitFor(part.length, signal);
    yield part;
  }
}
