import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { notify, type Notification } from '../../src/notify/notify.ts';
import { isAlive, until } from '../e2e/support.ts';
import { type Listener, openListener } from './listener.ts';

const NEVER = new AbortController().signal;
const TOLD: Notification = {
  event: 'failed',
  text: 'lmp 3 failed with exit status 5',
  task: 'lmp',
  index: '3',
  status: 5,
  store: 's3://lab/run7',
};

describe('a notification by POST', () => {
  let listener: Listener;
  beforeEach(async () => {
    listener = await openListener();
  });
  afterEach(() => listener.close());
  const post = (): Promise<string | undefined> => notify({ kind: 'url', url: listener.url }, TOLD, NEVER);

  it('is one JSON object that says what ended, how and where', async () => {
    expect(await post()).toBeUndefined();
    expect(listener.got).toEqual([
      { ...TOLD, host: os.hostname(), at: expect.stringMatching(/^\d{4}-.*Z$/) },
    ]);
  });

  it('is tried three times while the server fails', async () => {
    listener.answers = [500, 503];
    expect(await post()).toBeUndefined();
    expect(listener.got).toHaveLength(3);
    listener.answers = [500, 500, 502, 200];
    expect(await post()).toBe('the answer was 502');
    expect(listener.got).toHaveLength(6);
  });

  it('is not tried again after an answer that will not change', async () => {
    listener.answers = [404];
    expect(await post()).toBe('the answer was 404');
    expect(listener.got).toHaveLength(1);
  });

  it('goes nowhere else when the answer says so', async () => {
    const elsewhere = await openListener();
    // The one that keeps method and body (RFC 9110, section 15.4.8).
    listener.answers = [307, 307, 307];
    listener.location = elsewhere.url;
    const why = await post();
    expect(elsewhere.got).toEqual([]);
    expect(why).toBeDefined();
    expect(why).not.toContain('secret');
    await elsewhere.close();
  });

  it('says why nobody answers, and never where it was sent: that may be a secret', async () => {
    const url = listener.url;
    await listener.close();
    const why = await notify({ kind: 'url', url }, TOLD, NEVER);
    expect(why).toContain('ECONNREFUSED');
    expect(why).not.toContain('secret');
    listener = await openListener();
  });
});

describe('a notification by command', () => {
  let dir: string;
  beforeEach(() => {
    dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-notify-'));
  });
  afterEach(() => fs.rmSync(dir, { recursive: true }));
  const run = (command: string): Promise<string | undefined> =>
    notify({ kind: 'command', command }, TOLD, NEVER);

  it('gives the command the JSON on its standard input, and what matters most in variables', async () => {
    const file = path.join(dir, 'told');
    expect(
      await run(`cat > ${file}; echo "$CAPTURED_EVENT $CAPTURED_INDEX $CAPTURED_STATUS" > ${file}.env`),
    ).toBeUndefined();
    expect(JSON.parse(fs.readFileSync(file, 'utf8'))).toMatchObject(TOLD);
    expect(fs.readFileSync(`${file}.env`, 'utf8')).toBe('failed 3 5\n');
  });

  it('is right with a command that reads nothing, and says how one failed', async () => {
    expect(await run('exec true')).toBeUndefined();
    expect(await run('exit 7')).toBe('it exited with 7');
    expect(await run('kill -9 $$')).toBe('it was ended by SIGKILL');
  });

  it('is killed with all that it has started when the time is over', async () => {
    const file = path.join(dir, 'pid');
    const over = new AbortController();
    const command = `sleep 1000 & echo $! > ${file}.new; mv ${file}.new ${file}; wait`;
    const why = notify({ kind: 'command', command }, TOLD, over.signal);
    await until(() => fs.existsSync(file), 'it has started one');
    over.abort();
    expect(await why).toBe('it was ended by SIGKILL');
    const pid = Number(fs.readFileSync(file, 'utf8'));
    await until(() => !isAlive(pid), 'that one is gone');
  });
});
