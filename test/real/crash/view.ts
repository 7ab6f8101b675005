// What is in a store, seen without capture's own drivers: now, and for S3 at every moment there ever was.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { decompress } from 'zstd-napi';
import { isCompressedKey, parseRecordKey } from '../../../src/model/format/keys.ts';
import { parseRecord } from '../../../src/model/format/records.ts';
import type { WholeRecord } from '../../../src/model/checkpoint/history.ts';
import { readFound } from '../../e2e/store-files.ts';
import type { GcsServer } from '../../gcs-server/server.ts';
import type { AzureServer } from '../../azure/server.ts';
import type { S3Server } from '../../s3-server/server.ts';
import { readContent } from './content.mjs';

export interface View {
  readonly url: string;
  readonly options: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** All visible keys. */
  keys(): readonly string[];
  /** Uncompressed bytes of a visible object. */
  bytes(key: string): Buffer;
  /** What a visible object holds; looked at once for each state of it. */
  object(key: string): Held;
  /** Every state of data objects that readers could see, each told once. */
  newlyVisible(): readonly { readonly key: string; readonly bytes: Buffer }[];
  /** Changes when anything was uploaded. */
  uploads(): string;
  /** Keys of uploads that were interrupted and have left something. */
  leftovers(): readonly string[];
}

export interface Held {
  /** Of the uncompressed bytes. */
  readonly md5: string;
  /** Undefined when it is no state that the task closed. */
  readonly content: { readonly name: string; readonly round: number } | undefined;
}

type Open = (key: string, stored: Buffer) => Buffer;
const asItIs: Open = (_, stored) => stored;

/** `open`: of what is sealed. */
export function fileView(dir: string, open = asItIs): View {
  const seen = new Set<string>();
  const look = looker();
  const stamp = (key: string): string => {
    const { ino, mtimeNs } = fs.statSync(path.join(dir, key), { bigint: true });
    return `${key} ${ino} ${mtimeNs}`;
  };
  const view: View = {
    url: dir,
    options: [],
    env: {},
    keys: () => readFound(dir),
    bytes: (key) => plain(key, open(key, fs.readFileSync(path.join(dir, key)))),
    object: (key) => look(stamp(key), () => view.bytes(key)),
    newlyVisible: () =>
      view
        .keys()
        .filter(isData)
        .filter((key) => !seen.has(stamp(key)) && seen.add(stamp(key)))
        .map((key) => ({ key, bytes: view.bytes(key) })),
    uploads: () => view.keys().filter(isData).map(stamp).join('\n'),
    leftovers: () => {
      const temporary = path.join(dir, '.capture-store', 'tmp');
      const names = fs.existsSync(temporary) ? fs.readdirSync(temporary) : [];
      const keys = names.filter((name) => name.endsWith('.key'));
      return keys.map((name) => fs.readFileSync(path.join(temporary, name), 'utf8'));
    },
  };
  return view;
}

export function s3View(server: S3Server, prefix: string): View {
  const seen = new Map<string, number>();
  const everUsed = new Set<string>();
  const look = looker();
  const versions = (key: string) => server.versions(prefix + key);
  const view: View = {
    url: `s3://${server.bucket}/${prefix.slice(0, -1)}`,
    options: ['--path-style'],
    env: server.env,
    keys: () =>
      server
        .keys()
        .filter((key) => key.startsWith(prefix))
        .map((key) => key.slice(prefix.length)),
    bytes: (key) => plain(key, versions(key).at(-1)?.bytes ?? Buffer.alloc(0)),
    object: (key) => look(`${key} ${versions(key).length}`, () => view.bytes(key)),
    newlyVisible: () => {
      for (const { key } of server.served) if (key.startsWith(prefix)) everUsed.add(key.slice(prefix.length));
      return [...everUsed].filter(isData).flatMap((key) => {
        const fresh = versions(key).slice(seen.get(key) ?? 0);
        seen.set(key, versions(key).length);
        return fresh.flatMap(({ bytes }) => (bytes === undefined ? [] : [{ key, bytes: plain(key, bytes) }]));
      });
    },
    uploads: () =>
      view
        .keys()
        .filter(isData)
        .map((key) => `${key} ${versions(key).length}`)
        .join('\n'),
    leftovers: () => server.pendingUploads().filter((key) => key.startsWith(prefix)),
  };
  return view;
}

export function gcsView(server: GcsServer, prefix: string): View {
  const seen = new Map<string, number>();
  const look = looker();
  const versions = (key: string) => server.versions(prefix + key);
  const view: View = {
    url: `gs://lab/${prefix.slice(0, -1)}`,
    options: [],
    env: server.env,
    keys: () =>
      server
        .keys()
        .filter((key) => key.startsWith(prefix))
        .map((key) => key.slice(prefix.length)),
    bytes: (key) => plain(key, server.object(prefix + key)?.bytes ?? Buffer.alloc(0)),
    object: (key) => look(`${key} ${versions(key).length}`, () => view.bytes(key)),
    newlyVisible: () =>
      [...server.objects.versions.keys()]
        .filter((key) => key.startsWith(prefix) && isData(key.slice(prefix.length)))
        .flatMap((whole) => {
          const fresh = server.versions(whole).slice(seen.get(whole) ?? 0);
          seen.set(whole, server.versions(whole).length);
          const key = whole.slice(prefix.length);
          return fresh.map(({ bytes }) => ({ key, bytes: plain(key, bytes) }));
        }),
    uploads: () =>
      view
        .keys()
        .filter(isData)
        .map((key) => `${key} ${versions(key).length}`)
        .join('\n'),
    // Uploads that are left cost nothing, and end after a week.
    leftovers: () => [],
  };
  return view;
}

/** Azure removes by itself what interrupted puts leave. */
export function azureView(server: AzureServer, prefix: string): View {
  const seen = new Map<string, number>();
  const look = looker();
  const versions = (key: string) => server.versions(prefix + key);
  const view: View = {
    url: `${server.url}/${prefix.slice(0, -1)}`,
    options: [],
    env: server.env,
    keys: () => server.keys().map((key) => key.slice(prefix.length)),
    bytes: (key) => plain(key, versions(key).at(-1) ?? Buffer.alloc(0)),
    object: (key) => look(`${key} ${versions(key).length}`, () => view.bytes(key)),
    newlyVisible: () =>
      server
        .everUsed()
        .map((key) => key.slice(prefix.length))
        .filter(isData)
        .flatMap((key) => {
          const fresh = versions(key).slice(seen.get(key) ?? 0);
          seen.set(key, versions(key).length);
          return fresh.flatMap((bytes) => (bytes === undefined ? [] : [{ key, bytes: plain(key, bytes) }]));
        }),
    uploads: () =>
      view
        .keys()
        .filter(isData)
        .map((key) => `${key} ${versions(key).length}`)
        .join('\n'),
    leftovers: () => [],
  };
  return view;
}

function looker(): (stamp: string, read: () => Buffer) => Held {
  const known = new Map<string, Held>();
  return (stamp, read) => {
    const before = known.get(stamp);
    if (before !== undefined) return before;
    const bytes = read();
    const held = { md5: createHash('md5').update(bytes).digest('hex'), content: readContent(bytes) };
    known.set(stamp, held);
    return held;
  };
}

/** The newest record of each attempt that says more than its claim. */
export function recordsOf(view: View): readonly WholeRecord[] {
  const newest = new Map<number, string>();
  for (const key of view.keys()) {
    const at = parseRecordKey(key);
    if (at !== undefined && at.kind !== 'list' && at.seq > 0) newest.set(at.attempt, key);
  }
  return [...newest.values()].map((key) => {
    const record = parseRecord(view.bytes(key).toString('utf8'));
    if ('invalid' in record) throw new Error(`record ${key}: ${record.invalid}`);
    return { record, results: record.results };
  });
}

export function isData(key: string): boolean {
  return !key.startsWith('.capture/');
}

function plain(key: string, stored: Buffer): Buffer {
  return isCompressedKey(key) ? Buffer.from(decompress(stored)) : stored;
}
