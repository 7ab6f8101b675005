// Real readers that have stopped: a FIFO, a socket, a terminal.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../e2e/support.ts';
import { bundle } from '../support/bundle.ts';

/** Far more than a pipe, a socket and the queue hold together. */
const LINES = 20_000;

let dir = '';
let program = '';
let report = '';
let round = 0;
beforeAll(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-outlet-'));
  program = await bundle('test/log/fixtures/say-much.ts', dir);
});
afterAll(() => fs.rmSync(dir, { recursive: true }));

interface Speaker {
  readonly child: ChildProcess;
  /** Begins to read what it says on stderr, and gives all of it. */
  read(): Promise<string>;
}

function openFifo(): { readonly fd: number; readonly reader: fs.ReadStream } {
  const fifo = path.join(dir, `fifo-${round}`);
  execFileSync('mkfifo', [fifo]);
  // O_RDWR waits for nobody (fifo(7)); the second open then has its reader.
  const both = fs.openSync(fifo, 'r+');
  const fd = fs.openSync(fifo, 'w');
  const reader = fs.createReadStream(fifo);
  reader.once('open', () => fs.closeSync(both)).pause();
  return { fd, reader };
}

const SPEAKERS: Record<string, () => Speaker> = {
  'a FIFO': () => {
    const { fd, reader } = openFifo();
    const child = spawn(process.execPath, [program, String(LINES), report], {
      stdio: ['pipe', 'ignore', fd],
    });
    fs.closeSync(fd);
    return { child, read: () => all(reader) };
  },
  'a socket': () => {
    // What Node calls a pipe of a child is a pair of sockets.
    const child = spawn(process.execPath, [program, String(LINES), report], {
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    const { stderr } = child;
    return { child, read: () => all(stderr) };
  },
  'a terminal': () => {
    // script(1) reads the terminal no more once nobody takes what it passes on.
    const { fd, reader } = openFifo();
    const speak = `exec ${process.execPath} ${program} ${LINES} ${report} <&3`;
    const child = spawn('script', ['-qefc', speak, '/dev/null'], {
      stdio: ['ignore', fd, 'ignore', 'pipe'],
    });
    fs.closeSync(fd);
    return { child, read: () => all(reader) };
  },
};

async function all(stream: NodeJS.ReadableStream): Promise<string> {
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  return text;
}

describe('messages that nobody reads', () => {
  it.each(Object.keys(SPEAKERS))(
    'on %s hold up nothing, and are counted when somebody reads again',
    async (on) => {
      round += 1;
      report = path.join(dir, `report-${round}`);
      const { child, read } = SPEAKERS[on]!();
      await until(() => fs.existsSync(report), 'all is said');
      expect(fs.readFileSync(report, 'utf8'), 'the shared file is non-blocking').toBe('false');
      const text = read();
      const stdin = (child.stdio[3] ?? child.stdin) as NodeJS.WritableStream;
      stdin.end();
      const lines = (await text).split(/\r?\n/).filter((line) => line !== '');
      const dropped = lines
        .filter((line) => line.endsWith(' dropped'))
        .map((line) => Number.parseInt(line, 10));
      const said = lines.filter((line) => line.startsWith('line '));
      expect(dropped).toHaveLength(1);
      expect(said.length + (dropped[0] ?? 0)).toBe(LINES);
      expect(said.at(-1)).toMatch(new RegExp(`^line ${LINES} `));
      if (child.exitCode === null) await once(child, 'exit');
    },
  );

  it('does not keep the process from ending', async () => {
    round += 1;
    report = path.join(dir, `report-${round}`);
    const { child } = SPEAKERS['a socket']!();
    child.stdin?.end();
    const [status] = (await once(child, 'exit')) as [number];
    expect(status).toBe(0);
  });
});
