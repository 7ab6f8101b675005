// A large checkpoint that is rewritten in place all the time, over a link that carries only some of it: what is
// stored is never torn, never starved, and each time the newest. How many closes a link misses is counted here,
// not timed; figures for real links are those of bench/parts/checkpoint.mjs.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inNamespace } from '../support/namespace.ts';
import { openS3Place, type S3Place } from './s3-place.ts';
import { BIN, program, type Run } from './support.ts';

const MIB = 2 ** 20;
/** Five parts: with two on their way the reading cannot have come to its end. */
const SIZE_MIB = 40;
const OPTIONS = ['-k', 'k.chk', '--compression', 'none'] as const;

let s3: S3Place;
beforeEach(async () => {
  s3 = await openS3Place();
});
afterEach(() => s3.close());

const SCRIPT = `exec ${process.execPath} ${program('rewrite-when-told.mjs')} ${SIZE_MIB}`;

/** The program closes all contents up to this one. */
async function rewrite(run: Run, version: number): Promise<void> {
  const told = s3.place.at('told');
  fs.writeFileSync(`${told}.new`, String(version));
  fs.renameSync(`${told}.new`, told);
  await run.says(`closed ${version} with 1 name\n`);
}

async function end(run: Run): Promise<void> {
  fs.writeFileSync(s3.place.at('told.new'), 'end');
  fs.renameSync(s3.place.at('told.new'), s3.place.at('told'));
  expect(await run.status, run.stderr()).toBe(0);
}

interface Link {
  /** Resolves when the next upload has begun to send; it gets no further until it is let go. */
  busy(): Promise<{ letGo: () => void }>;
}

/** A link that takes the first parts of an upload and then waits. */
function openLink(): Link {
  const begun: { letGo: () => void }[] = [];
  const waiting: (() => void)[] = [];
  const gates = new Map<string, Promise<void>>();
  s3.server.fault = ({ operation, query }) => {
    if (operation !== 'UploadPart') return undefined;
    const id = query.get('uploadId') ?? '';
    const gate = gates.get(id);
    if (gate !== undefined) return { kind: 'delay', until: gate };
    const until = new Promise<void>((resolve) => begun.push({ letGo: resolve }));
    gates.set(id, until);
    waiting.shift()?.();
    return { kind: 'delay', until };
  };
  return {
    busy: async () => {
      if (begun.length === 0) await new Promise<void>((resolve) => waiting.push(resolve));
      return begun.shift() ?? { letGo: () => undefined };
    },
  };
}

/** The contents that were ever visible, in that order; a torn one is NaN. */
function storedVersions(): readonly number[] {
  const keys = [...new Set(s3.server.served.map(({ key }) => key))].filter((key) => key.includes('k.chk'));
  return keys
    .flatMap((key) => s3.server.versions(key).map(({ bytes }) => bytes))
    .filter((bytes) => bytes !== undefined)
    .map((bytes) => {
      const stamp = bytes.subarray(0, 8).toString();
      return bytes.equals(Buffer.alloc(SIZE_MIB * MIB, stamp)) ? Number(stamp) : Number.NaN;
    });
}

describe('a checkpoint that is rewritten in place all the time', () => {
  it('is stored over a link that carries one in three: every third, each time the newest, none torn', async () => {
    const link = openLink();
    const run = s3.run(OPTIONS, SCRIPT);
    await run.says('task sh');
    let version = 1;
    await rewrite(run, version);
    for (let upload = 1; upload <= 5; upload += 1) {
      const sending = await link.busy();
      version += 3;
      await rewrite(run, version);
      sending.letGo();
    }
    (await link.busy()).letGo();
    await end(run);
    // The first was read while it was sent, and rewritten meanwhile; from then on each is copied first.
    expect(storedVersions()).toEqual([4, 7, 10, 13, 16]);
    expect(s3.records().at(-1)?.record.generations[0]?.members[0]?.key).toContain('.1-');
    expect(run.stderr()).not.toContain('spool');
    expect(s3.server.pendingUploads()).toEqual([]);
  });

  const limited: readonly [string, (place: S3Place) => Run][] = [
    ['is over its limit', ({ run }) => run([...OPTIONS, '--spool-limit', '9MiB'], SCRIPT)],
    [
      'has a full disk',
      ({ place, server }) => {
        const spool = `${place.dir}/spool`;
        fs.mkdirSync(spool);
        const to = ['--to', `s3://${server.bucket}/run`, '--path-style', '--spool', spool];
        const command = [BIN, ...to, ...OPTIONS, '--', 'sh', '-c', SCRIPT];
        return place.exec(inNamespace({ tmpfs: { [spool]: '9m' } }, command, place.work), server.env);
      },
    ],
    ['cannot be made', ({ run }) => run([...OPTIONS, '--spool', '/nonexistent'], SCRIPT)],
  ];
  it.each(limited)('is stored when it rests, with a warning, where the spool %s', async (_, start) => {
    const link = openLink();
    const run = start(s3);
    await run.says('task sh');
    await rewrite(run, 1);
    for (const version of [2, 3]) {
      const sending = await link.busy();
      await rewrite(run, version);
      sending.letGo();
    }
    (await link.busy()).letGo();
    await end(run);
    expect(storedVersions()).toEqual([3]);
    expect(run.stderr().match(/the spool has no room for k\.chk.*\n {2}try: --spool/g)).toHaveLength(1);
    expect(s3.server.pendingUploads()).toEqual([]);
  });
});
