// Reads the bodies of answers: texts, within limits, and objects. A body that breaks off must throw, never look complete.
import { timedOut, reasonOf } from '../../model/errors.ts';
import { startTimer } from '../../native/clock.ts';
import { firstChunks, joined, releasing } from '../contract/driver.ts';
import { type GetOptions, type GotObject, StoreError } from '../contract/store.ts';
import { type Answer, Unanswered } from './transport.ts';

/** Far more than a page of 1,000 keys that are all escaped. A longer answer is not from a store. */
const LONGEST_BYTES = 16 * 2 ** 20;

/** A successful status without the content that the store promises for it. What the request has done is unknown. */
export class NotFromStore extends Error {
  constructor(lacks: string) {
    super(`the answer has no ${lacks}`);
    this.name = 'NotFromStore';
  }
}

/** A field that the store always sends. Throws {@link NotFromStore} if it is missing or empty. */
export function promised<T>(value: T | undefined, name: string): T {
  if (value === undefined || value === '') throw new NotFromStore(name);
  return value;
}

/** Reads the rest of an answer without content, so that its socket can be reused. */
export function drained(answer: Answer): Promise<void> {
  return taken(answer, () => undefined);
}

/** The whole answer as text. */
export async function textOf(answer: Answer): Promise<string> {
  const chunks: Buffer[] = [];
  await taken(answer, (chunk) => chunks.push(chunk));
  return Buffer.concat(chunks).toString();
}

/** Without an encoding: most answers are empty, and Node would create a decoder for each. */
function taken({ body, textMs }: Answer, take: (chunk: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let bytes = 0;
    const late = (): unknown => body.destroy(new Unanswered(timedOut('no whole answer in time'), false));
    const timer = startTimer(textMs, late);
    for (const end of ['end', 'error', 'close']) body.once(end, () => timer.cancel());
    body.on('data', (chunk: Buffer) => {
      take(chunk);
      bytes += chunk.length;
      if (bytes > LONGEST_BYTES) body.destroy(new NotFromStore('end'));
    });
    body.once('end', resolve);
    body.once('error', reject);
  });
}

/** An object whose first bytes have arrived. */
export interface BegunObject {
  readonly answer: Answer;
  readonly chunks: AsyncGenerator<Uint8Array>;
}

/** Reads the first bytes. Refuses another range than the requested one. An answer without Content-Range begins at 0. */
export async function beginObject(
  answer: Answer,
  { range, aheadBytes = -1 }: GetOptions,
): Promise<BegunObject> {
  const first = /^bytes (\d+)-/.exec(answer.headers['content-range'] ?? '')?.[1] ?? 0;
  if (Number(first) !== (range?.first ?? 0) || (lengthOf(answer) ?? 0) > mostBytesOf(range)) {
    answer.body.destroy();
    throw new NotFromStore('range that was asked for');
  }
  const rest = (answer.body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  return { answer, chunks: joined(await firstChunks(rest, aheadBytes), rest) };
}

/** Undefined for an answer in chunks (RFC 9112, section 7.1), whose end alone shows how long it is. */
export function lengthOf({ headers }: Pick<Answer, 'headers'>): number | undefined {
  const told = headers['content-length'];
  return told === undefined ? undefined : Number(told);
}

/** Whoever reads a whole object bounds it. */
function mostBytesOf(range: GetOptions['range']): number {
  return range === undefined ? Infinity : range.last - range.first + 1;
}

/** `what` is read, for messages: `GetObject s3://bucket/key`. `hint` is for an answer that is longer than asked for. */
export interface Reading extends Pick<GetOptions, 'range' | 'signal'> {
  readonly what: string;
  readonly hint: string;
}

/** The size of the whole object, and the body of the answer. */
export function restOf(begun: BegunObject, reading: Reading): Pick<GotObject, 'sizeBytes' | 'body'> {
  const { answer } = begun;
  const whole = /\/(\d+)$/.exec(answer.headers['content-range'] ?? '')?.[1];
  return {
    sizeBytes: whole === undefined ? lengthOf(answer) : Number(whole),
    body: releasing(wholeBody(begun, reading), async () => {
      answer.body.destroy();
    }),
  };
}

async function* wholeBody(
  { answer, chunks }: BegunObject,
  { range, what, hint, signal }: Reading,
): AsyncGenerator<Uint8Array> {
  // Bounds an answer in chunks, which names no length.
  const mostBytes = mostBytesOf(range);
  const lengthBytes = lengthOf(answer);
  let seenBytes = 0;
  try {
    for await (const chunk of chunks) {
      seenBytes += chunk.byteLength;
      if (seenBytes > mostBytes) {
        const why = `the answer has more than the ${mostBytes} bytes asked for`;
        throw new StoreError('transient', `${what}: ${why}`, { hint });
      }
      yield chunk;
    }
  } catch (error) {
    if (error instanceof StoreError) throw error;
    signal?.throwIfAborted();
    // Node throws here if the connection ends before the promised length (ECONNRESET, aborted).
    const where = `after ${seenBytes}${lengthBytes === undefined ? '' : ` of ${lengthBytes}`} bytes`;
    throw new StoreError('transient', `${what}: the answer broke off ${where} (${reasonOf(error)})`, {
      cause: error,
    });
  } finally {
    answer.body.destroy();
  }
  signal?.throwIfAborted();
}
