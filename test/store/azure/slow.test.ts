// A server that is slow, or that stops to answer: what makes progress goes on, and everything else ends.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type BlobContainer, openContainer } from '../../../src/store/azure/container.ts';
import { copyObject } from '../../../src/store/azure/copy.ts';
import { listFolders, listObjects } from '../../../src/store/azure/list.ts';
import { deleteObjects, getObject, headObject } from '../../../src/store/azure/objects.ts';
import { putObject } from '../../../src/store/azure/put.ts';
import type { AzureOperation, AzureServer } from '../../azure/server.ts';
import { chunks, newMeta, textOf } from '../contract.ts';
import { onAzureServer } from './setup.ts';

const STALL_MS = 600;
const BYTES = Buffer.alloc(100_000, 'bytes');

let server: AzureServer;
let container: BlobContainer;
onAzureServer((started) => {
  server = started;
});
let count = 0;
beforeEach(async () => {
  count += 1;
  const settings = { url: `${server.url}/run${count}`, flags: [], unfenced: false };
  container = await openContainer(settings, 0, undefined, STALL_MS);
  await putObject({ ...container, budgetMs: 20_000, stallMs: 20_000 }, 'r.dat', BYTES, { meta: newMeta() });
  server.served.length = 0;
});
afterEach(() => {
  server.fault = undefined;
});

it.each([0, 1_000_000])('what comes slowly is read, of it %i bytes ahead', async (aheadBytes) => {
  server.fault = () => ({ kind: 'slow', pieces: 10, everyMs: 150 });
  const got = await getObject(container, 'r.dat', { aheadBytes });
  expect(await textOf(got?.body)).toBe(String(BYTES));
});

it.each([0, 1_000_000])('what comes a few bytes at a time ends, of it %i bytes ahead', async (aheadBytes) => {
  server.fault = () => ({ kind: 'slow', pieces: BYTES.length, everyMs: 150 });
  const read = async (): Promise<string> =>
    textOf((await getObject(container, 'r.dat', { aheadBytes }))?.body);
  await expect(read()).rejects.toMatchObject({ kind: 'transient' });
});

const parts = () => chunks([BYTES, BYTES]);
it.each<[AzureOperation, () => Promise<unknown>]>([
  ['GetBlobProperties', () => headObject(container, 'r.dat')],
  ['GetBlob', () => getObject(container, 'r.dat', {})],
  ['ListBlobs', () => listObjects(container, '', undefined).next()],
  ['ListBlobs', () => listFolders(container, '', undefined)],
  ['GetAccountInformation', () => listFolders(container, '', undefined)],
  ['PutBlob', () => putObject(container, 'x', BYTES, { meta: newMeta() })],
  ['PutBlock', () => putObject(container, 'x', parts(), { meta: newMeta() })],
  ['PutBlockList', () => putObject(container, 'x', parts(), { meta: newMeta() })],
  ['CopyBlobFromURL', () => copyObject(container, { from: 'r.dat', to: 'x' })],
  ['DeleteBlob', () => deleteObjects(container, ['r.dat'], {})],
])('%s ends if no answer comes', async (operation, work) => {
  server.fault = (incoming) => (incoming.operation === operation ? { kind: 'stall' } : undefined);
  await expect(work()).rejects.toMatchObject({
    kind: 'transient',
    message: expect.stringMatching(/: no answer from http:.*127.* \(ETIMEDOUT, 1 try\)$/),
  });
});
