import { createHash, randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { loadMd5 } from '../../src/push/hash.ts';

function refusedByFips(): never {
  throw new Error('error:0308010C:digital envelope routines::unsupported');
}

it.each([
  ['of OpenSSL', undefined],
  ['where OpenSSL refuses it', refusedByFips],
])('makes the md5 %s, one file after the other', async (_, create) => {
  const newMd5 = await loadMd5(create);
  for (const bytes of [Buffer.alloc(0), Buffer.from('abc'), randomBytes(3_000_000)]) {
    const md5 = newMd5();
    md5.update(bytes.subarray(0, 1000));
    md5.update(bytes.subarray(1000));
    expect(md5.digest()).toBe(createHash('md5').update(bytes).digest('hex'));
  }
});

it('starts anew after a file that was given up', async () => {
  const newMd5 = await loadMd5(refusedByFips);
  newMd5().update(Buffer.from('left'));
  expect(newMd5().digest()).toBe('d41d8cd98f00b204e9800998ecf8427e');
});
