import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { flushCommand, type FlushRequest } from '../../src/cli/flush.ts';
import { type Parsed, readLine } from '../../src/cli/read-line.ts';
import { EXIT } from '../../src/model/exit-status.ts';
import { mistakesOf, noFiles, parsed } from './given.ts';

const env = { CAPTURED_SOCKET: '/w/.capture/1.sock' };
const read = (args: readonly string[], variables: NodeJS.ProcessEnv = env): Parsed<FlushRequest> =>
  readLine(flushCommand, args, { env: variables, cwd: '/', outside: noFiles });
const mistakes = (...args: readonly string[]): readonly string[] => {
  const line = read(args);
  return line.kind === 'mistakes' ? line.mistakes.map(({ message, hint }) => `${message} | ${hint}`) : [];
};

describe('capture flush', () => {
  it.each([
    [[], { ping: false, timeoutMs: 30_000, socket: '/w/.capture/1.sock' }],
    [['--timeout', '2m'], { timeoutMs: 120_000 }],
    [['--strict'], { strict: true }],
    [['--ping'], { timeoutMs: 5000, ping: true, strict: false }],
    [['--timeout=250ms', '--ping'], { timeoutMs: 250, ping: true }],
    [['--control', '/shared/c'], { socket: '/shared/c' }],
    [['--control=/a=b'], { socket: '/a=b' }],
  ])('understands %j', (args, meant) => {
    expect(read(args)).toMatchObject({ kind: 'go', request: meant });
  });

  it('takes the options of a run, which mean nothing to it', () => {
    const run = '-r out/ -kk.chk --to=/s --index 3 --keep --grace 30s --checkpoint-settle=1s --dry-run';
    expect(read([...run.split(' '), '--timeout', '2m'])).toMatchObject({
      kind: 'go',
      request: { ping: false, strict: false, timeoutMs: 120_000, socket: '/w/.capture/1.sock' },
    });
  });

  it('asks the capture that runs this task before the one that the environment names for all', () => {
    const both = { ...env, CAPTURE_CONTROL: '/shared/c' };
    expect(read([], both)).toMatchObject({ request: { socket: '/w/.capture/1.sock' } });
    expect(read(['--control', '/shared/d'], both)).toMatchObject({ request: { socket: '/shared/d' } });
    expect(read([], { CAPTURE_CONTROL: '/shared/c', CAPTURED_SOCKET: '' })).toMatchObject({
      request: { socket: '/shared/c' },
    });
  });

  it.each([
    ['a script that is run without capture', [], {}, false],
    ['a task whose capture has no socket', [], { CAPTURED_RUN: 'token' }, true],
    ['one that wants to be sure', ['--strict'], {}, true],
    ['a probe', ['--ping'], {}, true],
  ] as const)('without a socket, %s, %j in %j, needs a run: %s', (_, args, variables, needsRun) => {
    expect(read(args, variables)).toMatchObject({ request: { socket: undefined, needsRun } });
  });

  it.each([
    [['--timeout', '30'], '--timeout 30s'],
    [['--timeout'], '--timeout lacks its value'],
    [['--timeout', '--ping'], '--timeout lacks its value'],
    [['--timout', '3s'], '| --timeout'],
    [['--checkpoint'], 'unknown option --checkpoint | --checkpoints; capture flush --help'],
    [['--', 'x'], "capture flush runs no task, and takes no 'x' | leave out -- and what stands behind it"],
    [['--', '-h'], "capture flush runs no task, and takes no '-h'"],
    [['--grace'], '--grace lacks its value'],
    [['--keep=1'], '--keep takes no value'],
    [['--handoff'], 'unknown option --handoff'],
    [['--ping=1'], '--ping takes no value'],
    [['now'], "capture flush takes no 'now'"],
    [['--control', ''], 'not a path'],
    [['--control', `/${'x'.repeat(107)}`], 'at most 107 bytes, this one 108'],
  ])('says what is wrong with %j', (args, message) => {
    expect(mistakes(...args).join('\n')).toContain(message);
  });

  it('takes no names, and so says nothing of those that begin as an option does', () => {
    expect(mistakes('--frobnicate')).toEqual(['unknown option --frobnicate | capture flush --help']);
  });

  it('says all mistakes at once', () => {
    expect(mistakes('--timeout', '3', 'x', '--pong')).toHaveLength(3);
  });
});

describe('--control of capture watch', () => {
  it('names the socket, from the current directory on', () => {
    expect(parsed(['watch', '-r', 'r', '--to', '/s', '--control', 'c']).settings.control).toBe('/c');
    expect(parsed(['watch', '-r', 'r', '--to', '/s']).settings.control).toBeUndefined();
    expect(parsed(['watch', '-r', 'r'], { CAPTURE_CONTROL: '/c' }).settings.control).toBe('/c');
  });

  it('is refused when no socket can have such a name, and for a run', () => {
    expect(mistakesOf(['watch', '--control', `/${'é'.repeat(60)}`])).toEqual([
      expect.stringContaining('at most 107 bytes, this one 121'),
    ]);
    expect(mistakesOf(['--control', '/c', '--', 'x'])).toEqual([expect.stringContaining('unknown option')]);
  });
});

it('capture flush asks the socket whose owner it has looked at, and no other that then gets its name', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-flush-'));
  const servers: net.Server[] = [];
  onTestFinished(() => {
    vi.restoreAllMocks();
    for (const server of servers) server.close();
    fs.rmSync(dir, { recursive: true });
  });
  const answerAt = async (name: string, answer: object): Promise<string> => {
    const server = net
      .createServer((socket) => socket.once('data', () => socket.end(`${JSON.stringify(answer)}\n`)))
      .listen(path.join(dir, name));
    servers.push(server);
    await once(server, 'listening');
    return path.join(dir, name);
  };
  const own = await answerAt('own', { kind: 'flushed', left: [{ path: 'r.dat', why: 'no time' }], more: 0 });
  const other = await answerAt('other', { kind: 'flushed', left: [], more: 0 });
  const connect = net.connect.bind(net);
  vi.spyOn(net, 'connect').mockImplementation((...args: readonly unknown[]) => {
    fs.renameSync(other, own);
    return Reflect.apply(connect, net, args) as net.Socket;
  });
  const request = { socket: own, ping: false, strict: false, timeoutMs: 5000, needsRun: true };
  // It uses no tools.
  expect(await flushCommand.act(request, {} as never)).toBe(EXIT.notStored);
});
