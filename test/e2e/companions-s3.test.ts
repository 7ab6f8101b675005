// Files that a task keeps open, in a strict S3 store: with a checkpoint, and when the task is asked to end.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Companion } from '../../src/model/format/records.ts';
import { openS3Place, type S3Place } from './s3-place.ts';
import { isAlive, killTree, until } from './support.ts';

let s3: S3Place;
beforeEach(async () => {
  s3 = await openS3Place();
});
afterEach(() => s3.close());

const OPTIONS = ['--companions', 'log', '--task-name', 't'];
const UNTIL_END = 'until [ -e end ]; do sleep 0.05; done';

/** Of the newest generation that is recorded. */
const companion = (): Companion | undefined => s3.records().at(-1)?.record.generations[0]?.companions[0];
const end = (): void => fs.writeFileSync(s3.place.at('end'), '');

async function resumed(...options: readonly string[]): Promise<string> {
  s3.place.freshWork();
  const run = s3.run([...OPTIONS, ...options], 'cat log');
  expect(await run.status, run.stderr()).toBe(0);
  return run.stdout();
}

describe('a companion in S3', () => {
  it('is stored with each checkpoint while it is open, only what is new, and joined for the next attempt', async () => {
    // A file that is renamed into place is proven, although processes of the task end all the time.
    const put = (n: number): string => `echo ${n} > new; mv new k.chk`;
    const script = `exec 3>>log; echo one >&3; ${put(1)}; until [ -e go ]; do sleep 0.05; done
      echo two >&3; ${put(2)}; ${UNTIL_END}`;
    const run = s3.run([...OPTIONS, '-k', 'k.chk'], script);
    await until(() => companion()?.size === 4, 'the first checkpoint');
    fs.writeFileSync(s3.place.at('go'), '');
    await until(() => companion()?.size === 8, 'the second checkpoint');
    const segments = companion()?.segments ?? [];
    expect(segments.map(({ first, size }) => [first, size])).toEqual([
      [0, 4],
      [4, 4],
    ]);
    expect(segments.map(({ key }) => s3.text(key))).toEqual(['one\n', 'two\n']);
    killTree(run.pid);
    await run.status;
    expect(await resumed('-k', 'k.chk')).toBe('one\ntwo\n');
  });

  it('is stored when the task is asked to end, while the task still has it open', async () => {
    const run = s3.run(OPTIONS, `trap : TERM; exec 3>log; echo last words >&3; echo up $$; ${UNTIL_END}`);
    await run.says(/up \d+\n/);
    process.kill(run.pid, 'SIGTERM');
    await until(() => companion()?.size === 11, 'the capture');
    // Nothing has ended: it is no final scan that has found it.
    expect(isAlive(Number(run.stdout().split(' ')[1]))).toBe(true);
    expect(s3.records().at(-1)?.record.kind).toBe('checkpoint');
    end();
    await run.status;
    expect(await resumed()).toBe('last words\n');
  });
});
