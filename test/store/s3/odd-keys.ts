// Keys with all that a path, a query, a signature and XML give a meaning of their own.
import { expect } from 'vitest';
import type { Store } from '../../../src/store/contract/store.ts';
import { chunks, listOf, newMeta, textOf } from '../contract.ts';

export const ODD_KEYS = [
  'a b  c ',
  'a+b%2Bc%20d%',
  'a//b/',
  '~a-b_c.d~',
  "!'()*",
  'a?b=c&d=e#f;g:h@i,j$k',
  '<a>&amp;"b"</a>',
  'é/\u{1F600}/\uFB01/e\u0301',
  '\\a|b^c`d{e}[f]',
] as const;

/** Writes, reads, lists, copies and deletes one, whole and in parts; gives back what stood under it. */
export async function roundTrip(store: Store, key: string): Promise<string> {
  await store.put(key, Buffer.from(key), { meta: newMeta() });
  const text = await textOf((await store.get(key))?.body);
  expect(await listOf(store, key)).toEqual([key]);
  await store.copy(key, `${key}copy`);
  expect((await store.head(`${key}copy`))?.sizeBytes).toBe(Buffer.byteLength(key));
  const parts = [Buffer.alloc(5 * 2 ** 20), Buffer.from(key)];
  await store.put(key, chunks(parts), { meta: newMeta() });
  expect((await store.head(key))?.sizeBytes).toBe(5 * 2 ** 20 + Buffer.byteLength(key));
  await store.delete([key, `${key}copy`]);
  expect(await listOf(store, key)).toEqual([]);
  return text;
}
