// Stores that hold records of many indices, as attempts leave them: a directory, and the S3 test server. They are
// written straight, without a run.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { recordKey } from '../../src/model/format/keys.ts';
import { textWithSum, type CaptureRecord, type RecordKind } from '../../src/model/format/records.ts';
import type { StoreSettings } from '../../src/model/format/settings.ts';
import type { Store } from '../../src/store/contract/store.ts';
import { openStore } from '../../src/store/open.ts';
import { startS3Server, type S3Server } from '../s3-server/server.ts';

export interface Given extends Partial<Omit<CaptureRecord, 'index' | 'kind'>> {
  readonly index: string;
  readonly attempt: number;
  readonly seq: number;
  readonly kind: RecordKind;
  /** Of `failed`. */
  readonly status?: number;
}

/** A record that can be read, with its key. */
export function recordOf({ status, ...given }: Given): { readonly key: string; readonly text: string } {
  const { index, attempt, seq, kind, task = 't' } = given;
  const body = {
    format: 1,
    push: randomUUID(),
    capture: '0.0.0-test',
    at: '2026-11-22T12:00:00.000Z',
    task,
    runToken: 'run',
    host: 'node17',
    argv: ['t'],
    startedAt: '2026-11-22T11:00:00.000Z',
    ...(status === undefined ? {} : { end: { code: status, status } }),
    ...given,
  };
  const name = kind === 'failed' ? `failed-${status ?? 1}` : kind;
  return { key: recordKey({ taskName: task, index }, attempt, seq, name), text: textWithSum(body) };
}

export interface StoreOfRecords {
  readonly store: Store;
  /** For the command line. */
  readonly url: string;
  /** For a process that is to read it. */
  readonly env: Readonly<Record<string, string>>;
  readonly server: S3Server | undefined;
  /** `atMs`: when the store says that it was put there. */
  put(key: string, text: string | Uint8Array, atMs?: number): void;
  record(given: Given, atMs?: number): void;
  close(): Promise<void>;
}

export const STORE_KINDS = ['a directory', 'an S3 server'] as const;

/** `below`: where the directory is made; tests with very many files ask for /dev/shm. */
export async function openStoreOfRecords(
  kind: (typeof STORE_KINDS)[number],
  below = os.tmpdir(),
): Promise<StoreOfRecords> {
  const dir = fs.mkdtempSync(path.join(below, 'capture-array-'));
  const server = kind === 'a directory' ? undefined : await startS3Server();
  const url = server === undefined ? `file://${dir}` : `s3://${server.bucket}/run7`;
  const settings: StoreSettings = { url, flags: server === undefined ? [] : ['path-style'], unfenced: false };
  const before = { ...process.env };
  Object.assign(process.env, server?.env);
  const store = await openStore(settings);
  const put = (key: string, text: string | Uint8Array, atMs = Date.now()): void => {
    if (server !== undefined) return server.plant(`run7/${key}`, Buffer.from(text as string), atMs);
    const file = path.join(dir, key);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
    fs.utimesSync(file, atMs / 1000, atMs / 1000);
  };
  return {
    store,
    url,
    env: server === undefined ? {} : { ...server.env, CAPTURE_PATH_STYLE: '1' },
    server,
    put,
    record: (given, atMs) => {
      const { key, text } = recordOf(given);
      put(key, text, atMs);
    },
    close: async () => {
      await store.close();
      await server?.stop();
      process.env = before;
      fs.rmSync(dir, { recursive: true, force: true });
    },
  };
}
