// What stands in Redis becomes options, stores and keys: only what capture submit could have written.
import { expect, it } from 'vitest';
import { readSubmission } from '../../../src/many/queue/read-submission.ts';
import { submission } from '../submissions.ts';

const STORE = { url: 's3://lab/melt', flags: ['path-style', 'sse=kms:alias/lab', 'tag=a=b'], unfenced: true };

it('reads what capture submit writes', () => {
  const options = ['--results=a b', '--unfenced', '--path-style', '--log-output', '--to=s3://lab/melt'];
  const written = submission({ store: STORE, options });
  expect(readSubmission(written)).toEqual({ value: written });
});

it.each([
  ['a flag that is none of a store', { store: { ...STORE, flags: ['output=/home/vic/.bashrc'] } }],
  ['a flag with a name of all objects', { store: { ...STORE, flags: ['constructor'] } }],
  ['a flag that lacks its value', { store: { ...STORE, flags: ['sse'] } }],
  ['a flag with a value that is none', { store: { ...STORE, flags: ['storage-class=x --output=y'] } }],
  ['an option for the URL', { store: { ...STORE, url: '--output=/home/vic/.bashrc' } }],
  ['a directory that the reader would complete', { store: { ...STORE, url: 'melt' } }],
  ['a way out of the directory', { store: { ...STORE, url: 'file:///shared/../etc' } }],
  ['a URL of no kind', { store: { ...STORE, url: 'http://evil.example' } }],
  ['an option for the task', { taskName: '--output=x' }],
  ['a way out of the records', { taskName: '../..' }],
  ['an option of no task', { options: ['--log-file=/home/vic/.bashrc'] }],
  ['an option that takes the next word', { options: ['--results', '--to=s3://evil/x'] }],
  ['a value where none is', { options: ['--unfenced=1'] }],
  ['the end of the options', { options: ['--', 'sh'] }],
  ['a word', { options: ['x'] }],
])('refuses %s', (_what, changes) => {
  expect(readSubmission(submission(changes))).toEqual({ why: expect.any(String) as unknown });
});
