// What can go wrong between a client and the test server.
import type { IncomingMessage } from 'node:http';

export type Fault =
  /** Answers this without doing the work. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly code?: string;
      readonly body?: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** Does the work, then drops the connection. */
  | { readonly kind: 'lose-answer' }
  /** Drops the connection, or says nothing on it, and does the work only when the test says so (`held`). */
  | { readonly kind: 'late'; readonly isSilent?: boolean }
  /** Does the work, then answers an error; with status 200 the error is in the body. */
  | { readonly kind: 'error-after-work'; readonly status: number; readonly code: string }
  /** Drops the connection when this much of the request's body has come. */
  | { readonly kind: 'reset'; readonly afterBytes: number }
  /** Takes the request and never answers. */
  | { readonly kind: 'stall' }
  /** Waits before the work. */
  | { readonly kind: 'delay'; readonly until: Promise<unknown> }
  /** Does as if there were no If-None-Match. */
  | { readonly kind: 'ignore-condition' }
  /** Does the work, and names no ETag in its answer. */
  | { readonly kind: 'no-etag' }
  /** Stores other bytes than came, and with `dropsMeta` no metadata. */
  | { readonly kind: 'damage'; readonly dropsMeta?: boolean }
  /** Does the work, then keeps these bytes under this ETag. The answer names it, or is lost. */
  | {
      readonly kind: 'store-other';
      readonly etag: string;
      readonly bytes?: (sent: Buffer) => Buffer;
      readonly headers?: Readonly<Record<string, string>>;
      readonly isLost?: boolean;
    }
  /** Does the work, and says this beside or instead. */
  | { readonly kind: 'add-headers'; readonly headers: Readonly<Record<string, string>> }
  /** Sends only the beginning of the answer's body, with the whole length or in chunks. */
  | { readonly kind: 'cut-answer'; readonly afterBytes: number; readonly inChunks?: boolean };

/** The whole body of a request, or undefined when it did not come whole. */
export async function receiveBody(
  request: IncomingMessage,
  fault: Fault | undefined,
): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let seenBytes = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      seenBytes += chunk.length;
      if (fault?.kind === 'reset' && seenBytes >= fault.afterBytes) request.socket.destroy();
    }
  } catch {
    return undefined;
  }
  if (fault?.kind === 'delay') await fault.until;
  if (fault?.kind === 'reset') request.socket.destroy();
  return fault?.kind === 'reset' ? undefined : Buffer.concat(chunks, seenBytes);
}
