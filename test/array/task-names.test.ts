// Which tasks a store has, also if its server answers no listing with a delimiter.
import { expect, it } from 'vitest';
import { findArray, taskNames } from '../../src/array/stored-array.ts';
import { memoryStore } from '../support/memory-store.ts';

it.each([true, false])('finds the tasks of a store (folders are listed: %s)', async (listsFolders) => {
  const store = memoryStore();
  const { signal } = new AbortController();
  const only = listsFolders ? store : { ...store, listsByPage: true, folders: async () => [] };
  const put = (key: string): unknown => store.objects.set(key, { bytes: Buffer.from('x'), meta: {} });
  put('.capture/lmp/0/0001-000000.started.json');
  put('.capture/lmp/1/0001-000000.started.json');
  expect(await findArray(only, { taskName: undefined }, signal)).toMatchObject({ taskName: 'lmp' });
  put('.capture/mesh/0/0001-000000.started.json');
  expect(await taskNames(only, signal)).toEqual(['lmp', 'mesh']);
});
