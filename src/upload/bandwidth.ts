// The user's limit of what is sent (--bandwidth). A body, or a part of one, leaves as soon as those before it would have
// left over a link of that speed; tasks that share a sidecar share that link. Lifted while we may be stopped: what is not
// sent then is lost.
import { whileLinked } from '../model/waiting.ts';
import { clockMs } from '../native/clock.ts';

/** The link that a limit is of; one for all tasks that share a sidecar. */
export interface LimitedLink {
  /** When it would be free again, ms since the epoch. */
  freeMs: number;
}

export class Bandwidth {
  readonly #bytesPerMs: number;
  readonly #link: LimitedLink;
  /** Aborts when the limit is lifted; what waits then goes on. */
  #lifted = new AbortController();

  /** Its limit is lifted and restored for itself alone. */
  constructor(bytesPerS: number, link: LimitedLink = { freeMs: 0 }) {
    this.#bytesPerMs = bytesPerS / 1000;
    this.#link = link;
  }

  /** Undefined while it is lifted. */
  get bytesPerS(): number | undefined {
    return this.#lifted.signal.aborted ? undefined : this.#bytesPerMs * 1000;
  }

  /** Resolves when so many bytes may leave, in the order of the calls; rejects with the signal's reason. */
  async take(bytes: number, signal?: AbortSignal): Promise<void> {
    const lifted = this.#lifted.signal;
    if (lifted.aborted) return;
    const nowMs = clockMs();
    const link = this.#link;
    const startMs = Math.max(nowMs, link.freeMs);
    link.freeMs = startMs + bytes / this.#bytesPerMs;
    if (startMs === nowMs) return;
    await whileLinked([signal, lifted], (either) => passed(startMs - nowMs, either));
    // What was given up, or goes without a limit, leaves its place on the link to those behind it.
    if (signal?.aborted === true || lifted.aborted) link.freeMs -= bytes / this.#bytesPerMs;
    signal?.throwIfAborted();
  }

  /** From now on nothing waits. True if the limit held until now. */
  lift(): boolean {
    const held = !this.#lifted.signal.aborted;
    this.#lifted.abort();
    return held;
  }

  /** The limit holds again. */
  restore(): void {
    if (!this.#lifted.signal.aborted) return;
    this.#lifted = new AbortController();
    this.#link.freeMs = 0;
  }
}

/** Resolves after `ms`, or when the signal aborts. */
function passed(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** The body, as the limit lets it go; without one as it is. */
export async function within(
  bandwidth: Bandwidth | undefined,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<Uint8Array | AsyncIterable<Uint8Array>> {
  if (bandwidth === undefined) return body;
  if (!(body instanceof Uint8Array)) return paced(bandwidth, body, signal);
  await bandwidth.take(body.length, signal);
  return body;
}

async function* paced(
  bandwidth: Bandwidth,
  parts: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  for await (const part of parts) {
    await bandwidth.take(part.length, signal);
    yield part;
  }
}
