// The last seconds with more to send than the link can carry: the newest checkpoint goes first, whatever was on its
// way when it was closed. The link here takes no part of a result at all.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openS3Place, type S3Place } from './s3-place.ts';

let s3: S3Place;
beforeEach(async () => {
  s3 = await openS3Place();
});
afterEach(() => s3.close());

it.each([
  ['are large', 30_000_000, 'UploadPart'],
  ['are small', 1000, 'PutObject'],
])(
  'a checkpoint that is closed at the last moment is stored, although results %s and end no more',
  async (...given) => {
    const [, size, asked] = given;
    const never = new Promise<void>(() => undefined);
    let isBusy = (): void => undefined;
    const busy = new Promise<void>((resolve) => {
      isBusy = resolve;
    });
    s3.server.fault = ({ operation, key }) => {
      if (operation !== asked || !key.includes('/r.')) return undefined;
      isBusy();
      return { kind: 'delay', until: never };
    };
    const task = `trap 'head -c 20000000 /dev/urandom > k.chk; exit 1' TERM
    for i in 1 2 3; do head -c ${size} /dev/urandom > r.$i; done; echo computing; while :; do sleep 0.1; done`;
    const run = s3.run(['-r', 'r.*', '-k', 'k.chk', '--compression', 'none', '--grace', '9s'], task);
    await run.says('computing');
    await busy;
    run.child.kill('SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
    const last = s3.records().at(-1)?.record;
    expect(last?.generations[0]?.members.map(({ path, size }) => [path, size])).toEqual([
      ['k.chk', 20_000_000],
    ]);
    expect(last?.left.map(({ path }) => path).toSorted()).toEqual(['r.1', 'r.2', 'r.3']);
    expect(run.stderr()).toContain('NOT stored: r.');
  },
);
