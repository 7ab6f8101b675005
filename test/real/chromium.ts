// A Chromium without a window that a test opens pages in. It is spoken to by the DevTools protocol over a pipe, as
// `--remote-debugging-pipe` takes it: JSON texts that end with NUL, in on fd 3, out on fd 4.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { removeWritten } from '../support/remove-written.ts';

/** The browser of this machine; undefined if it has none. */
export const CHROMIUM = ['chromium', 'chromium-browser', 'google-chrome'].find(
  (name) => spawnSync(name, ['--version']).status === 0,
);

export interface Look {
  readonly width: number;
  readonly height: number;
  readonly dark?: boolean;
}

export interface Page {
  /** The value of an expression in the page. */
  evaluate<T>(expression: string): Promise<T>;
  /** Resolves when the expression is true. */
  until(expression: string): Promise<void>;
  /** A key as the keyboard has it: `ArrowRight`, `Enter`, `a`. */
  press(...keys: readonly string[]): Promise<void>;
  click(x: number, y: number): Promise<void>;
  /** A PNG of what is seen. */
  picture(): Promise<Buffer>;
  /** What its console and its log have said: errors, warnings, what a policy has refused. */
  readonly said: readonly string[];
  /** All addresses that it has asked for. */
  readonly asked: readonly string[];
}

export interface Chromium {
  open(url: string, look: Look): Promise<Page>;
  close(): Promise<void>;
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly sessionId?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
}

type Send = (method: string, params?: object, sessionId?: string) => Promise<Record<string, unknown>>;

export async function startChromium(): Promise<Chromium> {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-chromium-'));
  const args = [
    '--headless',
    '--remote-debugging-pipe',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--hide-scrollbars',
    `--user-data-dir=${profile}`,
  ];
  const child = spawn(CHROMIUM ?? 'chromium', args, {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
  });
  const listeners = new Set<(message: Message) => void>();
  const send = speak(child, listeners);
  return {
    open: (url, look) => openPage(send, listeners, { url, look }),
    close: async () => {
      const gone = once(child, 'close');
      // By itself, so that nothing of it writes to the profile any more.
      await send('Browser.close').catch(() => undefined);
      await gone;
      removeWritten(profile);
    },
  };
}

function speak(child: ChildProcess, listeners: Set<(message: Message) => void>): Send {
  const [toIt, fromIt] = [child.stdio[3] as Writable, child.stdio[4] as Readable];
  const waiting = new Map<number, (message: Message) => void>();
  let last = 0;
  let rest = '';
  fromIt.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\0');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const message = JSON.parse(part) as Message;
      if (message.id === undefined) for (const listener of listeners) listener(message);
      else waiting.get(message.id)?.(message);
    }
  });
  return (method, params = {}, sessionId) =>
    new Promise((resolve, reject) => {
      last += 1;
      const id = last;
      waiting.set(id, ({ result = {}, error }) => {
        waiting.delete(id);
        if (error === undefined) resolve(result);
        else reject(new Error(`${method}: ${error.message}`));
      });
      toIt.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
}

async function openPage(
  send: Send,
  listeners: Set<(message: Message) => void>,
  { url, look }: { readonly url: string; readonly look: Look },
): Promise<Page> {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
  const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
  const tell = (method: string, params: object = {}): Promise<Record<string, unknown>> =>
    send(method, params, sessionId as string);
  const [said, asked]: [string[], string[]] = [[], []];
  const loaded = new Promise<void>((resolve) => {
    listeners.add(({ sessionId: of, method = '', params = {} }) => {
      if (of !== sessionId) return;
      if (method === 'Page.loadEventFired') resolve();
      else if (method === 'Network.requestWillBeSent') asked.push((params['request'] as { url: string }).url);
      else if (/^(Runtime\.(consoleAPICalled|exceptionThrown)|Log\.entryAdded)$/.test(method))
        said.push(JSON.stringify(params));
    });
  });
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await tell(`${domain}.enable`);
  const { width, height, dark = false } = look;
  await tell('Emulation.setDeviceMetricsOverride', {
    width,
    height,
    deviceScaleFactor: 1,
    mobile: width < 600,
  });
  await tell('Emulation.setEmulatedMedia', {
    features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }],
  });
  await tell('Page.navigate', { url });
  await loaded;
  return { ...handOn(tell), said, asked };
}

function handOn(
  tell: (method: string, params?: object) => Promise<Record<string, unknown>>,
): Omit<Page, 'said' | 'asked'> {
  const evaluate = async <T>(expression: string): Promise<T> => {
    const { result, exceptionDetails } = await tell('Runtime.evaluate', {
      expression,
      returnByValue: true,
      awaitPromise: true,
    });
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value: T }).value;
  };
  return {
    evaluate,
    until: async (expression) => {
      // A frame each, for a while that is long enough for any machine.
      const waited = `new Promise((resolve, reject) => {
        let left = 1200;
        const look = () => (${expression}) ? resolve(true)
          : left-- > 0 ? requestAnimationFrame(look) : reject(new Error('never so'));
        look();
      })`;
      await evaluate(waited);
    },
    press: async (...keys) => {
      for (const key of keys) {
        const text = key === 'Enter' ? '\r' : key.length === 1 ? key : undefined;
        await tell('Input.dispatchKeyEvent', { type: 'keyDown', key, code: key, text, ...virtual(key) });
        await tell('Input.dispatchKeyEvent', { type: 'keyUp', key, code: key, ...virtual(key) });
      }
    },
    click: async (x, y) => {
      for (const type of ['mousePressed', 'mouseReleased'])
        await tell('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
    },
    picture: async () => {
      const { data } = await tell('Page.captureScreenshot', { format: 'png' });
      return Buffer.from(data as string, 'base64');
    },
  };
}

/** What a key does of itself, such as Tab and Escape, hangs on its number. */
function virtual(key: string): { readonly windowsVirtualKeyCode: number } | undefined {
  const code = {
    Tab: 9,
    Enter: 13,
    Escape: 27,
    End: 35,
    Home: 36,
    ArrowLeft: 37,
    ArrowUp: 38,
    ArrowRight: 39,
    ArrowDown: 40,
  }[key];
  return code === undefined ? undefined : { windowsVirtualKeyCode: code };
}
