// What is pushed of a run that is given up, as another attempt has taken its place: nothing.
import { expect, it } from 'vitest';
import type { FileEvent } from '../../../src/model/file/decide.ts';
import { newDeferred } from '../../../src/model/waiting.ts';
import { filesThat } from './pushes.ts';

it('after the run was given up, no push begins, and no failed push is tried again', async () => {
  const run = new AbortController();
  const begun: string[] = [];
  const end = newDeferred<FileEvent>();
  const files = filesThat(({ path }) => {
    begun.push(path);
    return end.promise;
  }, run.signal);
  files.closed('under-way', 'close', 0);
  run.abort();
  end.resolve({ kind: 'failed', why: 'given up', atMs: 0 });
  await new Promise((resolve) => setImmediate(resolve));
  expect(files.get('under-way', 'result')).toMatchObject({ pushing: false, pending: true });
  files.closed('later', 'close', 0);
  files.needAll();
  files.hurry();
  expect(begun).toEqual(['under-way']);
});
