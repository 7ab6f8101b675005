// Answers that are not Azure's: pages of gateways and proxies, and answers to other questions.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../../src/store/contract/store.ts';
import { type AzureFault, type AzureOperation, type AzureServer } from '../../azure/server.ts';
import { kindOf, listOf, newMeta, textOf } from '../contract.ts';
import { onAzureServer, openAzure } from './setup.ts';

let server: AzureServer;
let count = 0;
let store: Store;
onAzureServer((started) => {
  server = started;
});
beforeEach(async () => {
  count += 1;
  store = await openAzure(`${server.url}/run${count}`, 20_000);
  await store.put('r.dat', Buffer.from('bytes'), { meta: newMeta() });
  server.served.length = 0;
});
afterEach(() => {
  server.fault = undefined;
});

const read = async (key: string): Promise<string> => textOf((await store.get(key))?.body);
const served = (operation: AzureOperation): number =>
  server.served.filter((one) => one.operation === operation).length;
function fail(operation: AzureOperation, fault: AzureFault, times: number): void {
  server.fault = (incoming) =>
    incoming.operation === operation && incoming.nth <= times ? fault : undefined;
}

/** With the headers that any server of files has. */
const HEADERS = {
  'content-type': 'text/html',
  'content-length': '19',
  etag: '"5c0"',
  'last-modified': new Date(0).toUTCString(),
};
const PAGE = { kind: 'answer', status: 200, headers: HEADERS, body: '<html>Log in</html>' } as const;
const NOTHING: AzureFault = { kind: 'answer', status: 200 };
const ELSEWHERE = { ...PAGE, status: 302, headers: { ...HEADERS, location: 'http://127.0.0.1:1/' } };
const NOT_FOUND: AzureFault = { ...PAGE, status: 404 };

describe.each<[string, AzureFault]>([
  ['a page of a proxy', PAGE],
  ['an empty answer', NOTHING],
  ['a way to another server', ELSEWHERE],
  ["a 404 that is not Azure's", NOT_FOUND],
])('%s is asked again', (_, fault) => {
  it.each<[AzureOperation, () => Promise<unknown>, unknown]>([
    ['GetBlobProperties', async () => (await store.head('r.dat'))?.sizeBytes, 5],
    ['GetBlob', () => read('r.dat'), 'bytes'],
    ['ListBlobs', () => listOf(store, ''), ['r.dat']],
    ['ListBlobs', () => store.folders(''), []],
    ['GetAccountInformation', () => listOf(store, ''), ['r.dat']],
    ['PutBlob', () => kindOf(store.put('x', Buffer.from('x'), { meta: newMeta() })), 'stored'],
    ['CopyBlobFromURL', () => store.copy('r.dat', 'x'), undefined],
    ['DeleteBlob', () => store.delete(['r.dat']), undefined],
  ])('%s', async (operation, work, answer) => {
    fail(operation, fault, 2);
    expect(await work()).toEqual(answer);
    expect(served(operation)).toBe(3);
  });
});

/** The namespace of a listing, as far as the SDK reads it. */
const pageOf = (inside: string, marker: string): AzureFault => ({
  kind: 'answer',
  status: 200,
  headers: { 'content-type': 'application/xml' },
  body: `<?xml version="1.0"?><EnumerationResults ContainerName="lab"><Blobs>${inside}</Blobs><NextMarker>${marker}</NextMarker></EnumerationResults>`,
});
const blobIn = (name: string): string =>
  `<Blob><Name>${name}</Name><Properties><Last-Modified>${new Date(0).toUTCString()}</Last-Modified><Etag>1</Etag><Content-Length>1</Content-Length></Properties></Blob>`;

describe('a listing', () => {
  it('that repeats its last page ends with an error', async () => {
    const hasty = await openAzure(`${server.url}/run${count}`, 0);
    fail('ListBlobs', pageOf('', 'again'), Infinity);
    const works = [listOf(hasty, ''), hasty.folders('')];
    await Promise.all(works.map((work) => expect(work).rejects.toThrow('the answer is not one of Azure')));
    expect(served('ListBlobs')).toBe(4);
  });

  it('of other keys is asked again', async () => {
    fail('ListBlobs', pageOf(blobIn('other/r.dat'), ''), 2);
    expect(await listOf(store, '')).toEqual(['r.dat']);
  });

  it('of folders goes on behind a page that has none', async () => {
    const whole = (name: string): string => `run${count}/${name}`;
    server.fault = ({ operation, nth }) => {
      if (operation !== 'ListBlobs') return undefined;
      if (nth === 1) return pageOf('', 'next');
      if (nth === 2) return pageOf(blobIn(whole('a')), 'more');
      return pageOf(`${blobIn(whole('b'))}<BlobPrefix><Name>${whole('c/')}</Name></BlobPrefix>`, '');
    };
    expect(await store.folders('')).toEqual(['c']);
  });
});

describe('a range', () => {
  it.each([
    ['which the answer ignores', { first: 1, last: 2 }, { 'content-length': '5' }, 'bytes'],
    ['from the start', { first: 0, last: 2 }, { 'content-length': '5' }, 'bytes'],
    [
      'that is another',
      { first: 1, last: 2 },
      { 'content-length': '2', 'content-range': 'bytes 2-3/5' },
      'te',
    ],
  ])('%s is asked for again', async (_, range, headers, body) => {
    const blob = { ...HEADERS, 'x-ms-blob-type': 'BlockBlob', ...headers };
    fail('GetBlob', { kind: 'answer', status: 206, headers: blob, body }, 2);
    const got = await store.get('r.dat', { range });
    expect(await textOf(got?.body)).toBe('bytes'.slice(range.first, range.last + 1));
    expect(got?.sizeBytes).toBe(5);
    expect(served('GetBlob')).toBe(3);
  });
});
