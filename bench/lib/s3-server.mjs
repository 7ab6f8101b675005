// The S3 server of the bench, in a process of its own. It is cheap and kind to all clients: it checks no signature and
// no condition but create-only (the tests' own server is the strict one). It notes when each version became visible, on
// the clock that all processes share. Its parent steers it over the channel of fork(): see lib/server.mjs.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import koffi from 'koffi';
import { answerTo } from './s3-operations.mjs';
import { newKeys } from './s3-keys.mjs';

const CHUNK_BYTES = 64 * 1024;
const SMALL_BYTES = 2 ** 20;
/** What a link of some ten milliseconds has on its way; from socket.h. */
const [SOL_SOCKET, SO_RCVBUF, RECEIVE_BYTES] = [1, 8, 128 * 1024];
const ZSTD_MAGIC = 0xfd2fb528;

/**
 * `versions`: every one that was ever visible, oldest first; `objects`: key to the visible one; `keys`: those of objects,
 * in their order.
 */
const store = {
  objects: new Map(),
  keys: newKeys(),
  uploads: new Map(),
  versions: [],
  kept,
  publish,
  remove,
};
/** What `plant` has put here, and how many versions that made: more, and something has changed since. */
let planted;
/** One rate for all connections together, in both directions. */
const link = { bytesPerSecond: Infinity, freeAtMs: 0, carriedBytes: 0 };
/** 'small': of what is larger than 1 MiB only the size is kept. */
let keep = 'all';
let requests = 0;
let gate = Promise.resolve();
let openGate = () => undefined;

const COMMANDS = {
  reset: (options) => {
    for (const of of [store.objects, store.keys, store.uploads]) of.clear();
    planted = undefined;
    store.versions.length = 0;
    requests = 0;
    keep = options.keep ?? 'all';
    setRate(options.bytesPerSecond);
    openGate();
  },
  setRate: ({ bytesPerSecond }) => setRate(bytesPerSecond),
  plant,
  /** From now on nothing new is taken, until `reset`: what is there may be read. */
  hold: () => {
    gate = new Promise((resolve) => {
      openGate = resolve;
    });
  },
  cpuS: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  },
  requests: () => requests,
  carriedBytes: () => link.carriedBytes,
  versions: () =>
    store.versions.map(({ id, key, atMs, sizeBytes, deleted }) => ({ id, key, atMs, sizeBytes, deleted })),
  digests,
};

const plain = await listening();
const slow = await listening();
// Else megabytes would be on their way at once: an accepted connection has it from the one that listens.
const setsockopt = koffi.load('libc.so.6').func('int setsockopt(int, int, int, const int *, uint32_t)');
const { _handle: handle } = slow;
setsockopt(handle.fd, SOL_SOCKET, SO_RCVBUF, [RECEIVE_BYTES], 4);
process.send({ port: plain.address().port, slowPort: slow.address().port });

process.on('message', ({ id, command, options }) => {
  Promise.resolve(COMMANDS[command](options))
    .then((answer) => process.send({ id, answer }))
    .catch((error) => process.send({ id, error: String(error.stack) }));
});
process.on('disconnect', () => process.exit());

/** Two of them serve the same objects: one is for the link that has a rate. */
async function listening() {
  const server = http.createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  // A client that was stopped for a while goes on with its connections.
  server.keepAliveTimeout = 60_000;
  server.requestTimeout = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function serve(request, response) {
  requests += 1;
  if (request.method === 'PUT' || request.method === 'POST') await gate;
  const { pathname, searchParams: query } = new URL(request.url, 'http://server');
  const [, , ...path] = decodeURIComponent(pathname).split('/');
  const chunks = [];
  for await (const chunk of request) {
    if (link.bytesPerSecond !== Infinity) await carry(chunk.length);
    chunks.push(chunk);
  }
  const { method, headers } = request;
  const {
    status,
    headers: more,
    body = [],
  } = answerTo(store, { method, key: path.join('/'), query, headers, chunks });
  const sizeBytes = sizeOf(body);
  response.writeHead(status, { ...(status === 204 ? {} : { 'content-length': sizeBytes }), ...more });
  if (method !== 'HEAD') await sendPaced(response, body);
  response.end();
}

async function sendPaced(response, body) {
  for (const chunk of body) {
    if (link.bytesPerSecond === Infinity) {
      response.write(chunk);
      continue;
    }
    for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
      const piece = chunk.subarray(at, at + CHUNK_BYTES);
      await carry(piece.length);
      response.write(piece);
    }
  }
}

async function carry(bytes) {
  const nowMs = performance.now();
  link.freeAtMs = Math.max(link.freeAtMs, nowMs) + (bytes / link.bytesPerSecond) * 1000;
  // Timers are of whole milliseconds: shorter waits are made up for by a later one.
  if (link.freeAtMs - nowMs > 2) await pause(link.freeAtMs - nowMs);
  link.carriedBytes += bytes;
}

function setRate(bytesPerSecond) {
  link.bytesPerSecond = bytesPerSecond ?? Infinity;
  link.freeAtMs = 0;
  link.carriedBytes = 0;
}

/** Of the bytes of a body or a part, what is kept. */
function kept(chunks) {
  const sizeBytes = sizeOf(chunks);
  return { sizeBytes, chunks: keep === 'small' && sizeBytes > SMALL_BYTES ? [] : chunks };
}

/** Makes a version visible, of one body or of several parts. */
function publish(key, { parts, etag, meta }) {
  const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  const chunks = parts.flatMap((part) => part.chunks);
  const [id, atMs, modifiedMs] = [store.versions.length, clockMs(), Date.now()];
  const version = { id, key, atMs, modifiedMs, sizeBytes, etag, meta, chunks };
  store.versions.push(version);
  store.keys.add(key);
  store.objects.set(key, version);
}

/** Holds what `storedArray` of a module gives for so many indices, below a prefix, and nothing else. */
async function plant({ module, indices, prefix }) {
  const what = `${indices} in ${prefix}`;
  if (planted?.what === what && planted.versions === store.versions.length) return;
  COMMANDS.reset({});
  const { storedArray } = await import(module);
  for (const { key, bytes, run } of storedArray(indices)) {
    const etag = `"${createHash('md5').update(bytes).digest('hex')}"`;
    publish(prefix + key, { parts: [kept([bytes])], etag, meta: { 'x-amz-meta-run': run } });
  }
  planted = { what, versions: store.versions.length };
}

function remove(key) {
  if (!store.objects.delete(key)) return;
  store.keys.delete(key);
  store.versions.push({ id: store.versions.length, key, atMs: clockMs(), sizeBytes: 0, deleted: true });
}

function sizeOf(chunks) {
  return chunks.reduce((sum, chunk) => sum + chunk.length, 0);
}

/** CLOCK_MONOTONIC, as process.hrtime of every process. */
function clockMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** md5 of what each of these versions holds, uncompressed; 'none' for what is no longer kept or is damaged. */
async function digests({ ids }) {
  const { decompress } = (await import('zstd-napi')).default;
  return ids.map((id) => {
    const bytes = Buffer.concat(store.versions[id].chunks ?? []);
    const packed = bytes.length >= 4 && bytes.readUInt32LE(0) === ZSTD_MAGIC;
    try {
      return createHash('md5')
        .update(packed ? decompress(bytes) : bytes)
        .digest('hex');
    } catch {
      return 'none';
    }
  });
}
