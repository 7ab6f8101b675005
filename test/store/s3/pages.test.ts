import { beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../../src/store/contract/store.ts';
import type { S3Server } from '../../s3-server/server.ts';
import { listOf } from '../contract.ts';
import { eachOnItsServer } from './setup.ts';

let server: S3Server;
let store: Store;
let pages: number;
eachOnItsServer(0, (started, opened) => {
  server = started;
  store = opened;
});
beforeEach(() => {
  pages = 0;
});

/** Answers each listing with this page. */
function answer(content: string): void {
  server.fault = ({ operation }) => {
    if (!operation?.startsWith('List')) return undefined;
    pages += 1;
    return { kind: 'answer', status: 200, body: `<Result>${content}</Result>` };
  };
}

const LAST = '<IsTruncated>false</IsTruncated>';
const URL_ENCODED = '<EncodingType>url</EncodingType>';
const objectOf = (key: string): string => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`;
const folderOf = (key: string): string => `<CommonPrefixes><Prefix>${key}</Prefix></CommonPrefixes>`;
const uploadOf = (key: string): string => `<Upload><Key>${key}</Key><UploadId>1</UploadId></Upload>`;

async function uploadsOf(prefix: string): Promise<readonly string[]> {
  const keys: string[] = [];
  await store.sweep(prefix, (key) => {
    keys.push(key);
    return false;
  });
  return keys;
}

const LISTINGS = [
  ['objects', objectOf, (prefix: string) => listOf(store, prefix)],
  ['folders', folderOf, (prefix: string) => store.folders(prefix)],
  ['uploads', uploadOf, uploadsOf],
] as const;

describe.each(LISTINGS)('a listing of %s', (what, entryOf, list) => {
  const slash = what === 'folders' ? '/' : '';

  it('has its keys as they are if the server ignores the encoding that was asked for', async () => {
    const keys = ['a%~b', 'x+y.dat', '€&amp;'];
    answer(LAST + keys.map((key) => entryOf(`run7/${key}${slash}`)).join(''));
    expect(await list('')).toEqual(['a%~b', 'x+y.dat', '€&']);
  });

  it('has its keys without their encoding if the page names it', async () => {
    answer(LAST + URL_ENCODED + entryOf(`run7/a+b%2Bc%01${slash}`));
    expect(await list('')).toEqual(['a b+c\u0001']);
  });

  it('whose keys have not the encoding that the page names is not an answer', async () => {
    answer(LAST + URL_ENCODED + entryOf(`run7/a%~b${slash}`));
    await expect(list('')).rejects.toThrow('the answer is not one of S3');
  });

  it.each(['True', '1', 'yes'])('that is truncated: %s, is refused at once', async (word) => {
    answer(`<IsTruncated>${word}</IsTruncated>${entryOf(`run7/a${slash}`)}`);
    await expect(list('')).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining(`IsTruncated is "${word}"`),
      hint: expect.stringContaining('AWS_ENDPOINT_URL'),
    });
    expect(pages).toBe(1);
  });

  it('that does not say whether it is truncated is not an answer', async () => {
    answer(entryOf(`run7/a${slash}`));
    await expect(list('')).rejects.toThrow('the answer is not one of S3');
  });
});

it.each(LISTINGS.slice(0, 2))(
  'a listing of %s with a key of another prefix is refused at once',
  async (what, entryOf, list) => {
    const more = '<NextContinuationToken>1</NextContinuationToken><NextKeyMarker>z</NextKeyMarker>';
    answer(`<IsTruncated>true</IsTruncated>${more}${entryOf(what === 'folders' ? 'run7/b/a/' : 'run7/b/a')}`);
    await expect(list('a/')).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('the listing has keys of another prefix'),
      hint: expect.stringContaining('AWS_ENDPOINT_URL'),
    });
    expect(pages).toBe(1);
  },
);

describe('a listing of uploads, some of another prefix', () => {
  it('has those of its prefix alone', async () => {
    answer(LAST + uploadOf('run7/a/x') + uploadOf('run7/b/y'));
    expect(await uploadsOf('a/')).toEqual(['a/x']);
  });

  it('is refused if many pages have none of its prefix, although their keys ascend', async () => {
    server.fault = ({ operation }) => {
      if (!operation?.startsWith('List')) return undefined;
      const key = `run7/b/${String((pages += 1)).padStart(5, '0')}`;
      const body = `<Result><IsTruncated>true</IsTruncated><NextKeyMarker>${key}</NextKeyMarker>${uploadOf(key)}</Result>`;
      return { kind: 'answer', status: 200, body };
    };
    await expect(uploadsOf('a/')).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('pages in a row lead no further'),
    });
    expect(pages).toBe(100);
  });
});
