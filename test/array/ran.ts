// Runs a command of bin/capture on a store, in a process of its own.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { BIN } from '../e2e/support.ts';
import type { S3Server } from '../s3-server/server.ts';
import type { StoreOfRecords } from './store-of-records.ts';

export interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number | null;
}

export function start(name: string, { url, env }: StoreOfRecords, args: readonly string[]): ChildProcess {
  return spawn(BIN, [name, url, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

export async function run(name: string, stored: StoreOfRecords, ...args: readonly string[]): Promise<Ran> {
  const child = start(name, stored, args);
  const [stdout, stderr] = await Promise.all([
    child.stdout === null ? '' : text(child.stdout),
    child.stderr === null ? '' : text(child.stderr),
    once(child, 'close'),
  ]);
  return { stdout, stderr, status: child.exitCode };
}

const CHANGES: ReadonlySet<string> = new Set(['PutObject', 'DeleteObject', 'DeleteObjects']);

/** Runs it, and kills it at the change of the store with this number, from 1. False if it made fewer. */
export async function killedAtChange(
  at: number,
  server: S3Server,
  startIt: () => ChildProcess,
): Promise<boolean> {
  let changes = 0;
  let isKilled = false;
  const child = startIt();
  server.fault = ({ operation }) => {
    if (!CHANGES.has(operation) || (changes += 1) !== at) return undefined;
    isKilled = child.kill('SIGKILL');
    return undefined;
  };
  await once(child, 'exit');
  server.fault = () => undefined;
  return isKilled;
}
