// What is sealed opens with the reference library, and the other way round; whatever is changed never opens.
import { randomBytes } from 'node:crypto';
import { Decrypter, Encrypter } from 'age-encryption';
import { beforeAll, describe, expect, it } from 'vitest';
import { fileKeyOf, newFileHeader, newIdentity, recipientOf } from '../../src/seal/age.ts';
import { openPayload, sealParts, sealWhole } from '../../src/seal/payload.ts';

const CHUNK = 64 * 2 ** 10;
const SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 17];

let identity: string;
let recipients: readonly string[];
beforeAll(async () => {
  identity = await newIdentity();
  recipients = [await recipientOf(identity), await recipientOf(await newIdentity())];
});

async function* piecesOf(bytes: Uint8Array, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    // The memory is used again for the next piece, as that of a worker is.
    const piece = Buffer.from(bytes.subarray(at, at + pieceBytes));
    yield piece;
    piece.fill(0);
  }
}

async function joined(parts: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const part of parts) all.push(Buffer.from(part));
  return Buffer.concat(all);
}

const opened = (sealed: Uint8Array, pieceBytes = 10_007): Promise<Buffer> =>
  joined(openPayload(piecesOf(sealed, pieceBytes), (header) => fileKeyOf(header, [identity])));

const byTheLibrary = async (sealed: Uint8Array): Promise<Uint8Array> => {
  const decrypter = new Decrypter();
  decrypter.addIdentity(identity);
  return decrypter.decrypt(Uint8Array.from(sealed));
};

describe.each(SIZES)('%i bytes', (size) => {
  const bytes = randomBytes(size);

  it('are opened by the library, sealed whole or in parts of any size', async () => {
    const whole = sealWhole(bytes, await newFileHeader(recipients));
    expect(Buffer.from(await byTheLibrary(whole)).equals(bytes)).toBe(true);
    for (const partBytes of [CHUNK - 1, CHUNK, 2 * CHUNK, 200_000]) {
      const parts = sealParts(piecesOf(bytes, partBytes), await newFileHeader(recipients), () => undefined);
      const sealed = await joined(parts);
      expect(sealed.length).toBe(whole.length);
      expect(Buffer.from(await byTheLibrary(sealed)).equals(bytes)).toBe(true);
    }
  });

  it('are opened from what the library has sealed, in pieces of any size', async () => {
    const encrypter = new Encrypter();
    for (const recipient of recipients) encrypter.addRecipient(recipient);
    const sealed = await encrypter.encrypt(bytes);
    for (const pieceBytes of [1000, CHUNK, CHUNK + 16, sealed.length])
      expect((await opened(sealed, pieceBytes)).equals(bytes)).toBe(true);
  });

  it('have another payload each time, also under one header', async () => {
    const header = await newFileHeader(recipients);
    const [one, two] = [sealWhole(bytes, header), sealWhole(bytes, header)];
    expect(Buffer.from(one).equals(two)).toBe(false);
  });
});

it('opens no object of which one byte was changed', async () => {
  const bytes = Buffer.from('energy -7.25\n');
  const sealed = Buffer.from(sealWhole(bytes, await newFileHeader(recipients)));
  for (let at = 0; at < sealed.length; at += 1) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    const result = await opened(changed).catch(() => undefined);
    expect(result, `byte ${at}`).toBeUndefined();
  }
});

it('opens no object that was cut short, continued or reordered', async () => {
  const bytes = randomBytes(3 * CHUNK);
  const { header, fileKey } = await newFileHeader(recipients);
  const sealed = Buffer.from(sealWhole(bytes, { header, fileKey }));
  const begin = header.length + 16;
  const sealedChunk = CHUNK + 16;
  const chunk = (n: number): Buffer =>
    sealed.subarray(begin + n * sealedChunk, begin + (n + 1) * sealedChunk);
  const head = sealed.subarray(0, begin);
  for (const wrong of [
    Buffer.alloc(0),
    sealed.subarray(0, 10),
    head,
    Buffer.concat([head, chunk(0)]),
    Buffer.concat([head, chunk(0), chunk(1)]),
    sealed.subarray(0, -1),
    sealed.subarray(0, -sealedChunk + 5),
    Buffer.concat([sealed, Buffer.from('x')]),
    Buffer.concat([sealed, chunk(2)]),
    Buffer.concat([head, chunk(1), chunk(0), chunk(2)]),
    Buffer.concat([head, chunk(0), chunk(2)]),
  ])
    await expect(opened(wrong)).rejects.toThrow(/sealed/);
});

it('passes a part on only when the next one, or the end, has come', async () => {
  const taken: string[] = [];
  const source = async function* source(): AsyncGenerator<Uint8Array> {
    for (const name of ['first', 'second']) {
      taken.push(`${name} asked`);
      yield randomBytes(2 * CHUNK);
    }
    taken.push('proven');
  };
  const parts = sealParts(source(), await newFileHeader(recipients), () => taken.push('released'));
  for await (const _ of parts) taken.push('part');
  expect(taken).toEqual(['first asked', 'released', 'second asked', 'part', 'released', 'proven', 'part']);
});

it('throws the error of the source, and nothing of the object is whole', async () => {
  const source = async function* source(): AsyncGenerator<Uint8Array> {
    yield randomBytes(2 * CHUNK);
    throw new Error('the file has changed');
  };
  const sent: Buffer[] = [];
  const send = async (): Promise<void> => {
    for await (const part of sealParts(source(), await newFileHeader(recipients), () => undefined))
      sent.push(Buffer.from(part));
  };
  await expect(send()).rejects.toThrow('the file has changed');
  await expect(opened(Buffer.concat(sent))).rejects.toThrow(/sealed/);
});
