// A task that makes more names than one may: what is new is not stored, and is said; what is known goes on.
import { expect, it } from 'vitest';
import type { LeftFile } from '../../../src/model/format/records.ts';
import { filesThat, stored } from './pushes.ts';

it('with too many names, the new ones are not stored, which is said once, and the known ones are stored', async () => {
  const pushed: string[] = [];
  const said: LeftFile[] = [];
  const push = ({ path }: { readonly path: string }): Promise<typeof stored> => {
    pushed.push(path);
    return Promise.resolve(stored);
  };
  const files = filesThat(push, undefined, { mostNames: 2, onTooMany: (file) => said.push(file) });
  for (const name of ['a', 'b', 'c', 'd']) files.closed(name, 'close', 0);
  await new Promise((resolve) => setImmediate(resolve));
  files.closed('a', 'close', 1);
  files.needAll();
  expect(pushed).toEqual(['a', 'b', 'a']);
  expect(said).toEqual([{ path: 'c', why: 'no more than 2 files of a run are stored' }]);
  expect([...files.tooMany.values()]).toEqual(said);
  expect(files.get('c', 'result')).toBeUndefined();
});
