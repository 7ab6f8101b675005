// A stream through a program: what is no failure. seal/gpg.test.ts has each way in which the program may fail.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { throughProgram } from '../../src/native/through-program.ts';

const MiB = 2 ** 20;
const STALL_MS = 1000;
const options = { env: process.env, stallMs: STALL_MS, onStatus: () => undefined };
const CONTENT = Buffer.alloc(3 * MiB, 'energy of the melt\n');

async function* pieces(pauseMs = 0): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < CONTENT.length; at += MiB) {
    // oxlint-disable-next-line no-await-in-loop -- a slow source
    if (pauseMs > 0) await sleep(pauseMs);
    yield CONTENT.subarray(at, at + MiB);
  }
}

async function readAll(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of stream) all.push(piece);
  return Buffer.concat(all);
}

describe('a program gets all bytes and gives all of its own,', () => {
  it('and its words reach it as they are', async () => {
    const words = ['-c', 'printf "%s" "$1"; cat', 'sh', '$(id) ; * "'];
    const got = await readAll(throughProgram('sh', words, pieces(), options));
    expect(got.equals(Buffer.concat([Buffer.from('$(id) ; * "'), CONTENT]))).toBe(true);
  });

  it('however slow the source is', async () => {
    const got = await readAll(throughProgram('cat', [], pieces(1.5 * STALL_MS), options));
    expect(got.equals(CONTENT)).toBe(true);
  });

  it('however slow the reader is', async () => {
    let bytes = 0;
    let pauses = 0;
    for await (const piece of throughProgram('cat', [], pieces(), options)) {
      bytes += piece.length;
      pauses += 1;
      if (pauses <= 3) await sleep(1.5 * STALL_MS);
    }
    expect(bytes).toBe(CONTENT.length);
  });

  it('and each line of its statuses is passed on', async () => {
    const lines: string[] = [];
    const onStatus = (line: string): void => void lines.push(line);
    await readAll(throughProgram('sh', ['-c', 'cat; seq 3 >&3'], pieces(), { ...options, onStatus }));
    expect(lines).toEqual(['1', '2', '3']);
  });
});

it('a program that is not there is ENOENT', async () => {
  const stream = readAll(throughProgram('no-such-program', [], pieces(), options));
  await expect(stream).rejects.toMatchObject({ code: 'ENOENT' });
});
