import { expect, it } from 'vitest';
import { LinkRate } from '../../src/model/link-rate.ts';
import { metered } from '../../src/upload/metered.ts';

const PARTS = [1, 2, 3, 4].map((n) => new Uint8Array([n]));

/** Notes what it is told. */
class Told extends LinkRate {
  readonly what: string[] = [];
  override bodyStarted(): void {
    this.what.push('begun');
  }
  override partTaken(): void {
    this.what.push('given');
  }
  override partAcknowledged(bytes: number): void {
    this.what.push(`sent ${bytes}`);
  }
  override bodyEnded(unsent: number): void {
    this.what.push(`ended ${unsent}`);
  }
}

async function* partsOf(onReturn: () => void): AsyncGenerator<Uint8Array> {
  try {
    yield* PARTS;
  } finally {
    onReturn();
  }
}

it('gives every part on as it is, and tells of each', async () => {
  const link = new Told();
  const meter = metered(
    link,
    partsOf(() => undefined),
  );
  const got: Uint8Array[] = [];
  for await (const part of meter.parts) {
    got.push(part);
    meter.sent(part.length);
  }
  meter.close();
  expect(got).toEqual(PARTS);
  expect(got.every((part, n) => part === PARTS[n])).toBe(true);
  const each = PARTS.flatMap(() => ['given', 'sent 1']);
  expect(link.what).toEqual(['begun', ...each, 'ended 0']);
});

it('gives the reading up with the sending, and says what was not acknowledged', async () => {
  const link = new Told();
  let isGivenUp = false;
  const meter = metered(
    link,
    partsOf(() => (isGivenUp = true)),
  );
  for await (const part of meter.parts) if (part[0] === 2) break;
  meter.close();
  expect(isGivenUp).toBe(true);
  expect(link.what.at(-1)).toBe('ended 2');
});
