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
import type { SftpServer } from '../sftp-server.ts';
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

/** The directory of an SFTP server. */
export function sftpView(server: SftpServer, name: string): View {
  const dir = server.at(name);
  return {
    ...fileView(dir),
    url: server.url(name),
    env: { HOME: server.home },
    leftovers: () => {
      const temporary = path.join(dir, '.capture-store', 'tmp');
      const names = fs.existsSync(temporary) ? fs.readdirSync(temporary) : [];
      return names.filter((one) => one.endsWith('.meta')).flatMap((one) => keyIn(path.join(temporary, one)));
    },
  };
}

/** None if it is half-written: then nobody knows whose it is, and a sweep removes it a day later. */
function keyIn(file: string): readonly string[] {
  return /^{"key":"([^"]*)"/.exec(fs.readFileSync(file, 'utf8'))?.slice(1) ?? [];
}

/** A server of objects. Keys are whole. */
interface ObjectServer extends Pick<View, 'url' | 'options' | 'env' | 'leftovers'> {
  readonly prefix: string;
  readonly keys: () => readonly string[];
  readonly everUsed: () => Iterable<string>;
  /** What has stood there, oldest first; undefined after a deletion. */
  readonly versions: (key: string) => readonly (Buffer | undefined)[];
}

function viewOf({ prefix, keys, everUsed, versions: all, ...server }: ObjectServer): View {
  const seen = new Map<string, number>();
  const look = looker();
  const versions = (key: string) => all(prefix + key);
  const inPrefix = (whole: Iterable<string>): readonly string[] =>
    [...whole].flatMap((key) => (key.startsWith(prefix) ? key.slice(prefix.length) : []));
  const view: View = {
    ...server,
    keys: () => inPrefix(keys()),
    bytes: (key) => plain(key, versions(key).at(-1) ?? Buffer.alloc(0)),
    object: (key) => look(`${key} ${versions(key).length}`, () => view.bytes(key)),
    newlyVisible: () =>
      inPrefix(everUsed())
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
  };
  return view;
}

export function s3View(server: S3Server, prefix: string): View {
  return viewOf({
    url: `s3://${server.bucket}/${prefix.slice(0, -1)}`,
    options: ['--path-style'],
    env: server.env,
    prefix,
    keys: () => server.keys(),
    everUsed: () => new Set(server.served.map(({ key }) => key)),
    versions: (key) => server.versions(key).map(({ bytes }) => bytes),
    leftovers: () => server.pendingUploads().filter((key) => key.startsWith(prefix)),
  });
}

/** Uploads that are left cost nothing, and end after a week. */
export function gcsView(server: GcsServer, prefix: string): View {
  return viewOf({
    url: `gs://lab/${prefix.slice(0, -1)}`,
    options: [],
    env: server.env,
    prefix,
    keys: () => server.keys(),
    everUsed: () => server.objects.versions.keys(),
    versions: (key) => server.versions(key).map(({ bytes }) => bytes),
    leftovers: () => [],
  });
}

/** Azure removes by itself what interrupted puts leave. */
export function azureView(server: AzureServer, prefix: string): View {
  return viewOf({
    url: `${server.url}/${prefix.slice(0, -1)}`,
    options: [],
    env: server.env,
    prefix,
    keys: () => server.keys(),
    everUsed: () => server.everUsed(),
    versions: (key) => server.versions(key),
    leftovers: () => [],
  });
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
