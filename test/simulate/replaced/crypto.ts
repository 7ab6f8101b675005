// node:crypto: random values come from the seed.
import realCrypto from 'node:crypto';
import { theWorld } from '../machine/world.ts';

export const { createCipheriv, createDecipheriv, createHash, createHmac, hash, hkdfSync, timingSafeEqual } =
  realCrypto;
export const randomUUID = (): string => theWorld().random.uuid();
export const randomInt = (below: number): number => theWorld().random.int(below);
export function randomBytes(size: number): Buffer {
  const { random } = theWorld();
  return Buffer.from(Array.from({ length: size }, () => random.int(256)));
}
