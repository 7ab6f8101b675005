// What capture status writes to a terminal (script(1) makes one), to a reader that goes away, and again and again.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { BIN } from '../../e2e/support.ts';
import { openStoreOfRecords, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords | undefined;
afterEach(async () => {
  await stored?.close();
  stored = undefined;
});

const PATH = process.env['PATH'];
const SGR = '\u001B[31m';

/** What a terminal of this size gets. */
function onTerminal(of: StoreOfRecords, args: readonly string[], env: NodeJS.ProcessEnv = {}): string {
  const command = `stty rows 12 cols 60; exec '${BIN}' status '${of.url}' ${args.join(' ')}`;
  const ran = spawnSync('script', ['-qefc', command, '/dev/null'], {
    encoding: 'utf8',
    env: { PATH, TERM: 'xterm-256color', ...env },
    input: '',
  });
  return ran.stdout.replaceAll('\r\n', '\n');
}

const fill = (of: StoreOfRecords): void => {
  for (let at = 0; at < 40; at += 1) {
    const failed = at % 10 === 7;
    const index = String(at);
    const common = { index, attempt: 1, seq: 2, host: `node${at}` };
    of.record(failed ? { ...common, kind: 'failed', status: 1 } : { ...common, kind: 'done' });
  }
};

describe('on a terminal', () => {
  it.each([
    [[], '40 indices: 4 failed, 36 done'],
    [['--array', '0-49'], '50 indices: 4 failed, 10 missing, 36 done'],
  ])('the table fits: what needs attention first, and how many more there are %j', async (args, summary) => {
    stored = await openStoreOfRecords('a directory');
    fill(stored);
    const lines = onTerminal(stored, args, { NO_COLOR: '1' }).trimEnd().split('\n');
    // The prompt of the shell has the last one.
    expect(lines).toHaveLength(11);
    expect(lines.at(-1)).toBe(summary);
    if (args.length > 0) expect(lines.splice(1, 1)[0]?.split(/\s+/)).toEqual(['40-49', 'missing']);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(60);
    expect(lines.slice(1, 5).map((line) => line.trim().split(/\s+/).slice(0, 3))).toEqual(
      ['7', '17', '27', '37'].map((index) => [index, 'failed', '1']),
    );
    expect(lines.at(-2)).toBe(`... and ${40 - (lines.length - 3)} more (--all)`);
  });

  it('of one index no line is cut: the reason and the names stand at the end', async () => {
    stored = await openStoreOfRecords('a directory');
    stored.record({ index: '3', attempt: 1, seq: 1, kind: 'failed', status: 7, left: [] });
    const said = onTerminal(stored, ['3'], { NO_COLOR: '1' });
    expect(said).toMatch(/^ +1 .{60,}capture exited 7$/m);
  });

  it('--all has no end', async () => {
    stored = await openStoreOfRecords('a directory');
    fill(stored);
    expect(onTerminal(stored, ['--all']).trimEnd().split('\n')).toHaveLength(42);
  });

  it('what is said has colours, unless NO_COLOR or TERM=dumb says otherwise', async () => {
    stored = await openStoreOfRecords('a directory');
    fill(stored);
    expect(onTerminal(stored, [])).toContain(SGR);
    expect(onTerminal(stored, [], { NO_COLOR: '1' })).not.toContain('\u001B[');
    expect(onTerminal(stored, [], { TERM: 'dumb' })).not.toContain('\u001B[');
  });

  it('--watch draws over what stood there', async () => {
    stored = await openStoreOfRecords('a directory');
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'done' });
    const drawn = onTerminal(stored, ['--watch'], { NO_COLOR: '1' });
    expect(drawn.slice(0, 11)).toBe('\u001B[H\u001B[JINDEX');
    expect(drawn).toMatch(/1 index: 1 done\n$/);
  });
});

const start = (of: StoreOfRecords, ...args: readonly string[]): ReturnType<typeof spawn> =>
  spawn(BIN, ['status', of.url, ...args], { env: { PATH, ...of.env }, stdio: ['ignore', 'pipe', 'pipe'] });

describe('--watch without a terminal', () => {
  it('tells the numbers again and again, until all are done', async () => {
    stored = await openStoreOfRecords('an S3 server');
    stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' });
    const child = start(stored, '--watch', '--every', '1s', '--array', '0');
    const said: string[] = [];
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      said.push(...chunk.trimEnd().split('\n'));
      if (said.length === 2) stored?.record({ index: '0', attempt: 1, seq: 2, kind: 'done' });
    });
    await once(child, 'close');
    expect(said.map((line) => line.replace(/^\S+ /, ''))).toEqual([
      '1 index: 1 running',
      '1 index: 1 running',
      '1 index: 1 done',
    ]);
    expect(child.exitCode).toBe(0);
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s ends it with %i', async (signal, status) => {
    stored = await openStoreOfRecords('a directory');
    stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' });
    const child = start(stored, '--watch');
    if (child.stdout === null || child.stderr === null) throw new Error('no pipes');
    const said = text(child.stderr);
    await once(child.stdout, 'data');
    child.kill(signal);
    await once(child, 'close');
    expect(child.exitCode).toBe(status);
    expect(await said).toContain(`stopped by ${signal}`);
  });
});

it('ends without a word if its reader goes away', async () => {
  stored = await openStoreOfRecords('a directory');
  for (let at = 0; at < 2000; at += 1) stored.put(`.capture/t/${at}/0001-000000.started.json`, 'x');
  const child = start(stored, '--json');
  if (child.stdout === null || child.stderr === null) throw new Error('no pipes');
  const said = text(child.stderr);
  await once(child.stdout, 'data');
  child.stdout.destroy();
  await once(child, 'close');
  expect({ status: child.exitCode, said: await said }).toEqual({ status: 141, said: '' });
});
