// Every command on an array, on a terminal (script(1) makes one), about a store that somebody else has filled with what is
// more than text there.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ARRAY_COMMANDS } from '../../src/array/commands.ts';
import { outputKey } from '../../src/model/format/output-keys.ts';
import { momentPrefix, partialPrefix, resultKey } from '../../src/model/format/keys.ts';
import { md5Of } from '../../src/model/md5.ts';
import { BIN } from '../e2e/support.ts';
import { harmIn, HOSTILE } from '../support/hostile.ts';
import { openStoreOfRecords, type StoreOfRecords } from './store-of-records.ts';

/** As an attempt of the index would build them: of a record with others nothing is shown. */
function keysOf(index: string): Record<'set' | 'result' | 'plain' | 'partial', string> {
  const scope = { taskName: 't', index };
  return {
    set: `${momentPrefix(HOSTILE, scope)}1-1`,
    result: resultKey(HOSTILE, scope, false),
    plain: resultKey('plain', scope, false),
    partial: `${partialPrefix(HOSTILE, scope)}1`,
  };
}

let stored: StoreOfRecords;
let dir: string;
beforeAll(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-strangers-'));
  stored = await openStoreOfRecords('a directory');
  fs.mkdirSync(path.join(dir, 'inputs'));
  fs.symlinkSync(HOSTILE_NAME, path.join(dir, 'inputs', HOSTILE_NAME));
  const file = (name: string, key: string): object => ({
    path: name,
    key,
    push: HOSTILE,
    attempt: 1,
    md5: md5Of(Buffer.from(HOSTILE)),
    size: Buffer.byteLength(HOSTILE),
    storedSize: Buffer.byteLength(HOSTILE),
    compressed: false,
    mtimeNs: '1',
    mode: 0o644,
  });
  const commonOf = (index: string): object => ({
    attempt: 1,
    seq: 3,
    host: HOSTILE,
    argv: [HOSTILE],
    capture: HOSTILE,
    runId: HOSTILE,
    restored: HOSTILE,
    scheduler: { [HOSTILE]: HOSTILE },
    left: [{ path: HOSTILE, why: HOSTILE }],
    generations: [
      {
        attempt: 1,
        generation: 1,
        at: '2026-11-22T12:00:00.000Z',
        members: [
          file(HOSTILE, keysOf(index).set),
          file(`gone ${HOSTILE}`, `${momentPrefix(`gone ${HOSTILE}`, { taskName: 't', index })}1-1`),
        ],
        companions: [],
        proof: 'x\u001b[41m\u202e',
        lacking: [{ path: HOSTILE, open: true, attempt: 1 }],
        behind: [{ path: HOSTILE, open: true, size: 1, mtimeNs: '1' }],
      },
    ],
    results: [file(HOSTILE, keysOf(index).result), file('plain', keysOf(index).plain)],
    partials: [file(HOSTILE, keysOf(index).partial)],
    kept: { [HOSTILE]: 3 },
  });
  stored.record({
    ...commonOf('0'),
    index: '0',
    kind: 'failed',
    status: 7,
    end: { status: 7, reason: HOSTILE, signal: HOSTILE },
  } as never);
  stored.record({ ...commonOf('1'), index: '1', kind: 'done', end: { status: 0, reason: HOSTILE } } as never);
  stored.record({ ...commonOf('2'), index: '2', kind: 'preempted' } as never);
  for (const index of ['0', '1', '2'])
    for (const key of Object.values(keysOf(index))) stored.put(key, HOSTILE);
  // Damaged ones, in folders that no capture makes, and in one that it does.
  for (const index of [HOSTILE, '3', '1;touch x;#'])
    stored.put(
      `.capture/t/${index}/0001-000001.done.json`,
      `{"${HOSTILE.replaceAll(/[^\x20-\x7e]/g, '')}": 1}`,
    );
  stored.put('.capture/t/4/0001-000001.done.json', JSON.stringify({ [HOSTILE]: 1 }));
  stored.put(`.capture/${HOSTILE}/0/0001-000001.done.json`, '{}');
  stored.put(`.capture/t/0/${HOSTILE}`, '{}');
  for (const [stream, text] of [
    ['stdout', HOSTILE],
    ['stderr', `${HOSTILE}\u20ac\xff`],
  ] as const)
    stored.put(
      outputKey({ taskName: 't', index: '0' }, { attempt: 1, stream, first: 0, compressed: false }),
      Buffer.from(text, stream === 'stdout' ? 'utf8' : 'latin1'),
    );
});
afterAll(async () => {
  await stored.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

/** As a name of a file. */
const HOSTILE_NAME = HOSTILE.replaceAll(/['/]/g, '');

function onTerminal(name: string, args: readonly string[]): string {
  const words = name === 'put' ? [...args, stored.url] : [stored.url, ...args];
  const quoted = [BIN, name, ...words].map((word) => `'${word}'`).join(' ');
  const { stdout } = spawnSync('script', ['-qefc', `cd '${dir}' && exec ${quoted}`, '/dev/null'], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], TERM: 'xterm-256color' },
    timeout: 30_000,
    input: name === 'rm' ? 'n\n' : '',
  });
  return stdout;
}

const LINES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  status: [
    [],
    ['--details'],
    ['--json', '--details'],
    ['0'],
    ['1'],
    ['0', '--json'],
    ['--failed'],
    ['--suggest'],
  ],
  put: [[HOSTILE_NAME], ['inputs'], ['--dry-run', `inputs/${HOSTILE_NAME}`]],
  gather: [['out'], ['again', '--with-partials', '--index', '1'], ['--list', 'json'], ['--list', 'md5sum']],
  ls: [[], ['0'], ['0', '--json']],
  cat: [
    ['1', 'plain'],
    ['0', HOSTILE.replaceAll("'", '')],
    ['0', 'none'],
    ['0', 'none', '--generation', '1-1'],
  ],
  verify: [[], ['--fast'], ['--json']],
  rm: [
    ['--array', '0-9', '--dry-run'],
    ['--index', '0'],
  ],
  prune: [
    ['--dry-run', '--partials', '--older', '--checkpoints'],
    ['--dry-run', '--json'],
  ],
  logs: [['0'], ['0', '--stream', 'stderr'], ['1']],
  report: [[], ['-o', '-']],
  doctor: [[], ['--json']],
  wait: [['--array', '0-4', '--fail-fast', '--timeout', '1s']],
};

describe.each(ARRAY_COMMANDS)('capture $name', ({ name }) => {
  it.each((LINES[name] ?? []).map((args) => [args]))('is text on a terminal: %j', (args) => {
    const shown = onTerminal(name, args);
    expect(shown.length).toBeGreaterThan(0);
    const isContent = name === 'logs' || name === 'cat';
    expect(
      harmIn(shown).filter((one) => !isContent || !one.startsWith('FORGED')),
      shown,
    ).toEqual([]);
  });
});

it('writes to a terminal what a task wrote, byte by byte, if it is asked to', () => {
  expect(onTerminal('logs', ['0', '--stream', 'stdout', '--raw'])).toContain('\u001b]0;title\u0007');
});

it('gives programs each byte as it is', () => {
  const bytes = (...args: readonly string[]): string =>
    spawnSync(BIN, [...args], { encoding: 'utf8', env: { PATH: process.env['PATH'] } }).stdout;
  expect(bytes('logs', stored.url, '0', '--stream', 'stdout')).toBe(HOSTILE);
  expect(bytes('cat', stored.url, '1', 'plain')).toBe(HOSTILE);
});
