// How a body leaves its worker: part by part as the reader asks for them. The last one leaves with the answer, once
// the file is proven; what is one part leaves with nothing before it.
import type { Encoded } from './encode.ts';
import type { Parts } from './parts.ts';
import type { BodyHead, Bytes, Proof } from './reading.ts';
import type { WorkerAnswer } from './worker-messages.ts';

/** Where the parts before the last go. */
export interface Outlet {
  begin(head: BodyHead): void;
  /** Resolves when the part was sent and one more may be; rejects when the job is given up. */
  part(bytes: Bytes): Promise<void>;
  /** Resolves when a part may be sent. */
  ready(): Promise<void>;
}

/** All that is given out before the proof. */
export interface Given {
  readonly head: BodyHead;
  readonly isBegun: boolean;
  readonly last: Bytes;
  readonly storedBytes: number;
}

export async function giveParts(
  { compressed, sizeHintBytes, parts }: Encoded,
  about: Omit<BodyHead, 'compressed' | 'sizeHintBytes'>,
  outlet: Outlet,
): Promise<Given> {
  const head = { ...about, compressed, sizeHintBytes };
  let isBegun = false;
  let storedBytes = 0;
  const last = await eachPart(parts, async (part) => {
    if (!isBegun) outlet.begin(head);
    isBegun = true;
    storedBytes += part.length;
    await outlet.part(part);
  });
  return { head, isBegun, last, storedBytes: storedBytes + last.length };
}

/** The answer with the last part. To be asked for only when what was read is proven. */
export async function giveLast(
  { head, isBegun, last: bytes, storedBytes }: Given,
  about: Omit<Proof, 'storedBytes'>,
  outlet: Outlet,
): Promise<WorkerAnswer> {
  const proof = { ...about, storedBytes };
  if (isBegun) await outlet.ready();
  const whole = isBegun ? undefined : { ...head, md5: proof.md5, sizeHintBytes: storedBytes };
  return { kind: 'end', head: whole, bytes, proof };
}

/** Hands every part but the last to `take`, and returns the last. */
async function eachPart(parts: Parts, take: (part: Bytes) => Promise<void>): Promise<Bytes> {
  try {
    for (;;) {
      const step = await parts.next();
      if (step.done === true) return step.value;
      await take(step.value);
    }
  } finally {
    // What was given up in the middle still has a compressor at work.
    await parts.return(new Uint8Array(0));
  }
}
