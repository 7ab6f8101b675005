import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ARRAY_COMMANDS } from '../../src/array/commands.ts';
import { Outage } from '../../src/array/outage.ts';
import { StoreError } from '../../src/store/contract/store.ts';
import { BIN } from '../e2e/support.ts';

const refused = (tries: number): StoreError =>
  new StoreError('transient', `cannot list s3://lab/run7: refused (${tries} tries)`, { hint: 'check it' });

describe('an outage of the store of an array', () => {
  let said: string[];
  let outage: Outage;
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    said = [];
    const say = (line: string, { hint = '' } = {}): void => void said.push(`${line} ${hint}`.trim());
    outage = new Outage('s3://lab/run7', { info: say, warn: say });
  });
  afterEach(() => {
    outage.close();
    vi.useRealTimers();
  });

  it('is told once, after three seconds, with the newest reason; and when it is over', () => {
    outage.asked();
    for (let tries = 1; tries <= 30; tries += 1) {
      vi.advanceTimersByTime(100);
      outage.tried('read', refused(tries));
    }
    expect(said).toEqual([
      'still trying s3://lab/run7, for 3.0 s now: cannot list s3://lab/run7: refused (29 tries) check it',
    ]);
    vi.advanceTimersByTime(57_000);
    outage.tried('read', undefined);
    outage.tried('read', undefined);
    expect(said.slice(1)).toEqual(['the store works again, after 1 min 0 s']);
    outage.tried('read', refused(1));
    vi.advanceTimersByTime(3000);
    expect(said).toHaveLength(3);
  });

  it('is told of a server that does not even refuse', () => {
    outage.asked();
    vi.advanceTimersByTime(3000);
    expect(said).toEqual(['still trying s3://lab/run7, for 3.0 s now: no answer yet']);
  });

  it('is none if the next try mends it, or if the answer is a no', () => {
    outage.asked();
    outage.tried('read', refused(1));
    outage.tried('read', undefined);
    outage.tried('read', new StoreError('denied', 'access denied'));
    vi.advanceTimersByTime(60_000);
    expect(said).toEqual([]);
  });
});

describe('with no store at the other end', () => {
  const children: ChildProcess[] = [];
  afterEach(async () => {
    for (const child of children.splice(0)) if (child.kill('SIGKILL')) await once(child, 'exit');
  });

  // An exam tells of each look as it goes, and waits less. A put reads its files first.
  const commands = ARRAY_COMMANDS.filter(({ name }) => name !== 'doctor' && name !== 'put');

  it('each command says on stderr whom it is trying to reach, and why it cannot', async () => {
    const lines = commands.map(async ({ name, help }) => {
      const [example = ''] = help.examples;
      const child = spawn(BIN, [...example.split(' ').slice(1), '--task-name', 't'], {
        env: {
          PATH: process.env['PATH'],
          AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9',
          AWS_ACCESS_KEY_ID: 'a',
          AWS_SECRET_ACCESS_KEY: 'b',
          AWS_REGION: 'us-east-1',
        },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      children.push(child);
      const [told] = (await once(child.stderr, 'data')) as [Buffer];
      return { name, told: String(told) };
    });
    const trying =
      /capture: warning: still trying s3:\/\/lab\/run7, for [\d.]+ s now: .*cannot reach http:\/\/127\.0\.0\.1:9 /;
    expect(await Promise.all(lines)).toEqual(
      commands.map(({ name }) => ({ name, told: expect.stringMatching(trying) })),
    );
  });
});
