// A request that is cut for the client and delivered when newer ones have been answered: as a load balancer does that had
// taken it. Whatever the server does with conditions, it must not undo what came after it.
import { beforeEach, describe, expect, it } from 'vitest';
import { ABSENT, exactly, type Precondition, type Store } from '../../../src/store/contract/store.ts';
import type { Fault } from '../../s3-server/faults.ts';
import type { IfMatch, Operation } from '../../s3-server/operations.ts';
import type { S3Server } from '../../s3-server/server.ts';
import { chunks, kindOf, newMeta, textOf } from '../contract.ts';
import { eachOnItsServer, openS3 } from './setup.ts';

const MIB = 2 ** 20;
const LATE: Fault = { kind: 'late' };
/** All that writes an object, and the ways to it. */
const WRITES: readonly Operation[] = [
  'PutObject',
  'CreateMultipartUpload',
  'UploadPart',
  'CompleteMultipartUpload',
  'CopyObject',
  'UploadPartCopy',
];

let server: S3Server;
let store: Store;
eachOnItsServer(20_000, (started, opened) => {
  server = started;
  store = opened;
});

const put = async (text: string, precondition: Precondition, into = store): Promise<Precondition> => {
  const outcome = await into.put('r.dat', Buffer.from(text), { meta: newMeta(), precondition });
  if (outcome.kind !== 'stored') throw new Error(outcome.kind);
  return exactly(outcome);
};
const text = async (key = 'r.dat'): Promise<string> => textOf((await store.get(key))?.body);
/** Cuts the first request of each kind that writes this key; all others are served. */
const cutEach = (key: RegExp, operations = WRITES): void => {
  const left = new Set(operations);
  server.fault = (incoming) => (key.test(incoming.key) && left.delete(incoming.operation) ? LATE : undefined);
};
const cutAll = (operations: readonly Operation[]): void => {
  server.fault = ({ operation }) => (operations.includes(operation) ? LATE : undefined);
};
const deliver = (): void => {
  server.fault = () => undefined;
  for (const arrive of server.held.splice(0)) arrive();
};

describe.each<IfMatch>(['honoured', 'bare', 'refused', 'ignored'])(
  'where If-Match is %s, what is late',
  (ifMatch) => {
    beforeEach(() => {
      server.ifMatch = ifMatch;
    });

    it('of a put does not undo the next one', async () => {
      const first = await put('v1', ABSENT);
      cutEach(/r\.dat$/);
      const second = await put('v2', first);
      await put('v3', second);
      expect(server.held.length).toBeGreaterThan(0);
      deliver();
      expect(await text()).toBe('v3');
      expect(server.pendingUploads().length).toBeLessThan(2);
    });

    it('of a put does not undo one that restores what it replaced, however often it arrives', async () => {
      let last = await put('v1', ABSENT);
      cutEach(/r\.dat$/);
      last = await put('v2', last);
      last = await put('v1', last);
      last = await put('v2', last);
      await put('v1', last);
      expect(server.held.length).toBeGreaterThan(0);
      deliver();
      expect(await text()).toBe('v1');
    });

    it('of a put that was given up does not undo the next one', async () => {
      const first = await put('v1', ABSENT);
      const hasty = await openS3('s3://lab/run7', 0);
      const learnt = await put('v2', first, hasty);
      cutAll([...WRITES, 'AbortMultipartUpload']);
      await expect(put('v3', learnt, hasty)).rejects.toMatchObject({ kind: 'transient' });
      server.fault = () => undefined;
      const now = await hasty.head('r.dat');
      await put('v4', exactly(now), hasty);
      await put('v2', exactly(await hasty.head('r.dat')), hasty);
      deliver();
      expect(await text()).toBe('v2');
      await hasty.close();
    });

    it('of a put that was aborted does not undo one that restores what it replaced', async () => {
      const precondition = await put('v2', await put('v1', ABSENT));
      const abort = new AbortController();
      server.fault = ({ operation }) =>
        WRITES.includes(operation) ? { kind: 'late', isSilent: true } : undefined;
      const options = { meta: newMeta(), precondition, signal: abort.signal };
      const given = store.put('r.dat', Buffer.from('v3'), options);
      await expect.poll(() => server.held.length).toBe(1);
      abort.abort(new Error('the deadline'));
      await expect(given).rejects.toThrow('the deadline');
      server.fault = () => undefined;
      await put('v2', await put('v4', precondition));
      deliver();
      expect(await text()).toBe('v2');
    });

    it('of an upload does not undo the next one, nor one that ends it when the server does not answer', async () => {
      const big = (fill: number): AsyncGenerator<Uint8Array> =>
        chunks([Buffer.alloc(5 * MIB, fill), Buffer.alloc(10, fill)]);
      const write = async (fill: number, precondition: Precondition): Promise<string> =>
        kindOf(store.put('big', big(fill), { meta: newMeta(), precondition }));
      await write(1, ABSENT);
      const first = exactly(await store.head('big'));
      const hasty = await openS3('s3://lab/run7', 0);
      cutAll(['CompleteMultipartUpload', 'AbortMultipartUpload']);
      await expect(hasty.put('big', big(2), { meta: newMeta(), precondition: first })).rejects.toThrow(
        'CompleteMultipartUpload',
      );
      const late = server.held.filter((_, at) => at === 0);
      server.fault = () => undefined;
      expect(await kindOf(hasty.put('big', big(3), { meta: newMeta(), precondition: first }))).toBe('stored');
      for (const arrive of late) arrive();
      expect(server.versions('run7/big').at(-1)?.bytes?.[0]).toBe(3);
      await hasty.close();
    });

    it('of a promotion does not undo what came after it', async () => {
      const first = await put('v1', ABSENT);
      await store.put('r.aside', Buffer.from('v2'), { meta: newMeta() });
      cutEach(/r\.dat$/);
      const promoted = await store.promote('r.aside', 'r.dat', { precondition: first });
      expect(promoted.kind).toBe('stored');
      expect(server.held.length).toBeGreaterThan(0);
      await put('v3', exactly(await store.head('r.dat')));
      deliver();
      expect(await text()).toBe('v3');
    });

    it('of a promotion that was given up is done before the name is written again', async () => {
      const first = await put('v1', ABSENT);
      await store.put('r.aside', Buffer.from('v2'), { meta: newMeta() });
      const hasty = await openS3('s3://lab/run7', 0);
      cutAll(['CopyObject']);
      await expect(hasty.promote('r.aside', 'r.dat', { precondition: first })).rejects.toMatchObject({
        kind: 'transient',
      });
      server.fault = () => undefined;
      await expect(put('v3', first, hasty)).rejects.toThrow('replaced-meanwhile');
      await put('v3', exactly(await hasty.head('r.dat')), hasty);
      deliver();
      expect(await text()).toBe('v3');
      expect(await store.head('r.aside')).toBeUndefined();
      await hasty.close();
    });

    it.each([['v2'], ['']])(
      'of a promotion of %j finds nothing, although a late put restores its source',
      async (aside) => {
        const first = await put('v1', ABSENT);
        // Each is delivered late once, and sent again.
        cutEach(/r\.(aside|dat)$/);
        await store.put('r.aside', Buffer.from(aside), { meta: newMeta(), precondition: ABSENT });
        await store.promote('r.aside', 'r.dat', { precondition: first });
        expect(await text()).toBe(aside);
        await put('v3', exactly(await store.head('r.dat')));
        deliver();
        expect(await text()).toBe('v3');
      },
    );

    it('of a copy does not copy what is there by then', async () => {
      const first = await put('v1', ABSENT);
      cutEach(/kept$/);
      await store.copy('r.dat', 'kept');
      await put('v2', first);
      deliver();
      expect(await text('kept')).toBe('v1');
    });

    it('is detected with one empty put for all puts that replace something, and reported', async () => {
      let state = await put('v1', ABSENT);
      expect(await store.replacesAtomically()).toBe(ifMatch !== 'ignored');
      for (const version of ['v2', 'v3', 'v4']) state = await put(version, state);
      const probes = server.served.filter(({ key }) => key.includes('~if-match'));
      expect(probes.filter(({ operation }) => operation === 'PutObject')).toHaveLength(1);
      expect(server.keys()).toEqual(['run7/r.dat']);
      expect(await store.replacesAtomically()).toBe(ifMatch === 'honoured' || ifMatch === 'bare');
      const puts = server.served.filter(
        ({ operation, key }) => operation === 'PutObject' && key.endsWith('r.dat'),
      );
      // v1; where it is refused, once more to learn that.
      expect(puts).toHaveLength({ honoured: 4, bare: 5, refused: 3, ignored: 1 }[ifMatch]);
    });
  },
);

it.each<IfMatch>(['honoured', 'ignored'])(
  'a promotion that was done, and nobody knows it, is found done, with no look at what its put has told (If-Match %s)',
  async (ifMatch) => {
    server.ifMatch = ifMatch;
    const meta = newMeta();
    const stored = await store.put('r.aside', Buffer.from('v1'), { meta });
    const source = {
      tag: stored.kind === 'stored' ? stored.tag : '',
      push: meta['push'] ?? '',
      sizeBytes: 2,
    };
    const promote = async (): Promise<string> =>
      kindOf(store.promote('r.aside', 'r.dat', { precondition: ABSENT, source }));
    server.fault = ({ operation }) => (operation === 'CopyObject' ? { kind: 'lose-answer' } : undefined);
    expect(await promote()).toBe('stored');
    server.fault = () => undefined;
    expect(await promote()).toBe('stored');
    expect(await text()).toBe('v1');
    const looks = server.served.filter(
      ({ operation, key }) => operation === 'HeadObject' && key.endsWith('aside'),
    );
    expect(looks).toEqual([]);
  },
);

it('a put is not sent if late puts wait for each form of its ETag', async () => {
  let last = await put('v1', ABSENT);
  cutEach(/r\.dat$/, ['PutObject']);
  last = await put('v2', last);
  last = await put('v1', last);
  cutEach(/r\.dat$/, ['PutObject']);
  last = await put('v2', last);
  expect(server.held).toHaveLength(2);
  await expect(put('v1', last)).rejects.toMatchObject({ kind: 'transient' });
  await expect(put('v1', last)).rejects.toThrow('may still arrive');
  deliver();
  expect(await text()).toBe('v2');
});

it('a server that reports that it has no conditions gets requests without them', async () => {
  const first = await put('v1', ABSENT);
  server.fault = ({ headers }) =>
    'if-match' in headers ? { kind: 'answer', status: 501, code: 'NotImplemented' } : undefined;
  await put('v3', await put('v2', first));
  expect(await text()).toBe('v3');
  expect(await store.replacesAtomically()).toBe(false);
});

it('a server that does not know conditions on copies gets copies without them', async () => {
  await put('v1', ABSENT);
  server.fault = ({ headers }) =>
    'x-amz-copy-source-if-match' in headers
      ? { kind: 'answer', status: 501, code: 'NotImplemented' }
      : undefined;
  await store.copy('r.dat', 'kept');
  expect(await text('kept')).toBe('v1');
});
