// The last seconds: a task with more unsaved files than the link can carry gets SIGTERM, and the machine is gone
// when the window is over. How much of what the link could have carried is stored, and the newest checkpoint?
// Usage: node bench/deadline.mjs [window s] [link MiB/s] [capture|aws ...]; build first. All on loopback: the
// project's own S3 server behind a link of one rate for all connections. The rivals run in a TERM trap; they copy by
// name, and here the checkpoint's comes first. On a busy machine the figures are the machine's: chrt -r 1 helps.
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import koffi from 'koffi';

const MiB = 2 ** 20;
const project = fileURLToPath(new URL('..', import.meta.url));
const me = fileURLToPath(import.meta.url);
const CAPTURE = path.join(project, 'bin/capture');
/** The newest one is written when the task is told to end. */
const CHECKPOINT_MIB = 32;
/** What capture keeps of a window (src/sidecar/shutdown/drain-window.ts). */
const RECORD_SECONDS = 1;
/** What the task leaves behind, in multiples of what the link carries in the window. */
const BACKLOG = 2;
/** What a link of some ten milliseconds has on its way; from socket.h. */
const [SOL_SOCKET, SO_RCVBUF, RECEIVE_BYTES] = [1, 8, 128 * 1024];
/** From many small files to few large ones, by turns. */
const SIZES_MIB = [1 / 16, 1, 1 / 4, 4, 1 / 16, 1 / 2, 8, 2];

if (process.argv[2] === 'task') {
  task(Number(process.argv[3]));
} else {
  const [windowS = 30, linkMiB = 8] = process.argv.slice(2, 4).map(Number);
  const asked = process.argv.slice(4);
  const { startS3Server } = await bundledServer();
  for (const name of asked.length > 0 ? asked : ['capture', 'aws', 'rclone']) {
    if (name !== 'capture' && !isHere(name)) console.log(`${name}: not here`);
    else console.log(await measure(name, windowS, linkMiB, startS3Server));
  }
}

async function measure(name, windowS, linkMiB, startS3Server) {
  const server = await startS3Server({ keepBytes: false });
  const link = await openLink(new URL(server.url).port, linkMiB * MiB);
  const work = fs.mkdtempSync(path.join(fs.existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir(), 'deadline-'));
  const backlogMiB = Math.ceil(windowS * linkMiB * BACKLOG);
  const child = start(name, { work, backlogMiB, windowS, server, url: link.url });
  let ended;
  child.once('exit', (code, signal) => {
    ended = { how: code ?? signal, atMs: performance.now() };
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  try {
    await until(() => output.includes('task: ready') || ended !== undefined);
    if (ended !== undefined) throw new Error(`${name} ended early\n${output}`);
    const carriedBefore = link.carriedBytes;
    const noticeMs = performance.now();
    child.kill('SIGTERM');
    const timeline = [];
    for (let second = 1; second <= windowS; second += 1) {
      const before = link.carriedBytes;
      const leftMs = noticeMs + second * 1000 - performance.now();
      await new Promise((resolve) => {
        setTimeout(resolve, Math.max(0, leftMs));
      });
      timeline.push(Math.round((100 * (link.carriedBytes - before)) / (linkMiB * MiB)));
    }
    killTree(child.pid);
    const stored = server.keys().filter((key) => !key.includes('/.capture/'));
    const storedBytes = stored.reduce((sum, key) => sum + server.versions(key).at(-1).sizeBytes, 0);
    // What was on the wire before the notice is nobody's merit.
    const inWindow = Math.max(0, storedBytes - carriedBefore);
    const carried = link.carriedBytes - carriedBefore;
    const could = windowS * linkMiB * MiB;
    const untilRecord = (windowS - RECORD_SECONDS) * linkMiB * MiB;
    const at =
      ended === undefined ? 'was killed' : `ended (${ended.how}) after ${seconds(noticeMs, ended.atMs)}`;
    // Where the link was idle, second by second: the time that somebody has let pass.
    const records = server.keys().filter((key) => key.includes('/.capture/'));
    const last =
      name === 'capture'
        ? `, ${percent(inWindow, untilRecord)} of what fits before the time of the last record, ` +
          `which is ${records.at(-1)?.split('.').at(-2)}`
        : '';
    if (process.env.BENCH_VERBOSE) console.log(`${output}link, % each second: ${timeline.join(' ')}`);
    return (
      `${name}: window ${windowS} s at ${linkMiB} MiB/s: ${percent(inWindow, could)} stored ` +
      `(${(inWindow / MiB).toFixed(0)} of ${(could / MiB).toFixed(0)} MiB, ${stored.length} objects; ` +
      `on the wire ${percent(carried, could)}), newest checkpoint ${newest(output, server)}${last}, ${at}`
    );
  } finally {
    killTree(child.pid);
    fs.rmSync(work, { recursive: true, force: true });
    await link.close();
    await server.stop();
  }
}

function start(name, { work, backlogMiB, windowS, server, url }) {
  const env = {
    ...process.env,
    ...server.env,
    AWS_ENDPOINT_URL_S3: url,
    AWS_ENDPOINT_URL: url,
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
  };
  const argv = [process.execPath, me, 'task', String(backlogMiB)];
  const to = `s3://${server.bucket}/run`;
  const copy = {
    aws: `aws s3 sync --quiet . ${to}`,
    rclone: `rclone copy . :s3,provider=Other,env_auth,endpoint='${url}':${server.bucket}/run`,
  }[name];
  // As users write it: the trap lets the task end, then copies all that is there.
  const trap = `trap 'kill -TERM $pid; wait $pid; ${copy}; exit' TERM; "$@" & pid=$!; wait $pid`;
  const options = ['--to', to, '--path-style', '-r', 'out/', '-k', 'k.chk', '--grace', `${windowS}s`];
  const command =
    name === 'capture' ? [CAPTURE, ...options, '--', ...argv] : ['bash', '-c', trap, 'bash', ...argv];
  return spawn(command[0], command.slice(1), { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The task: leaves results behind, and writes its newest checkpoint when it is told to end. */
function task(backlogMiB) {
  process.once('SIGTERM', () => {
    const bytes = write('k.chk', CHECKPOINT_MIB);
    fs.writeSync(1, `task: newest ${bytes.subarray(MiB, MiB + 32).toString('hex')}\n`);
    process.exit(143);
  });
  setInterval(() => undefined, 1e6);
  fs.mkdirSync('out');
  write('k.chk', CHECKPOINT_MIB);
  for (let n = 0, mib = 0; mib < backlogMiB; n += 1) {
    const size = SIZES_MIB[n % SIZES_MIB.length];
    write(`out/r${n}.dat`, size);
    mib += size;
  }
  fs.writeSync(1, 'task: ready\n');
}

/** Nothing that a compressor could make smaller: what is stored is what was sent. */
function write(name, mib) {
  const bytes = crypto.randomBytes(Math.round(mib * MiB));
  fs.writeFileSync('unfinished', bytes);
  fs.renameSync('unfinished', name);
  return bytes;
}

/** Is the newest content of the checkpoint in the store? What cannot be compressed stands in the object as it is. */
function newest(output, server) {
  const mark = Buffer.from(/.*task: newest (\w+)/s.exec(output)?.[1] ?? '', 'hex');
  if (mark.length === 0) return 'never written';
  const keys = server.keys().filter((key) => /(^|\/)k\.chk/.test(key));
  return keys.some((key) => server.versions(key).at(-1).bytes?.includes(mark)) ? 'stored' : 'LOST';
}

/** One rate for all connections together, in the direction of the server; answers are free. */
async function openLink(port, bytesPerSecond) {
  const sockets = new Set();
  const link = { carriedBytes: 0, url: '', close: undefined };
  let freeAtMs = 0;
  const carry = async (bytes) => {
    const nowMs = performance.now();
    freeAtMs = Math.max(freeAtMs, nowMs) + (bytes / bytesPerSecond) * 1000;
    if (freeAtMs - nowMs > 1)
      await new Promise((resolve) => {
        setTimeout(resolve, freeAtMs - nowMs);
      });
    link.carriedBytes += bytes;
  };
  const relay = net.createServer((client) => {
    const upstream = net.connect({ port: Number(port), host: '127.0.0.1' });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    }
    upstream.pipe(client);
    client.on('data', (bytes) => {
      client.pause();
      void carry(bytes.length).then(() => {
        upstream.write(bytes);
        client.resume();
      });
    });
    client.on('close', () => upstream.destroy());
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  // oxlint-disable-next-line no-underscore-dangle -- Node has no public way to a server's descriptor
  limitBuffers(relay._handle.fd);
  link.url = `http://127.0.0.1:${relay.address().port}`;
  link.close = async () => {
    for (const socket of sockets) socket.destroy();
    relay.close();
    await once(relay, 'close');
  };
  return link;
}

/**
 * Loopback takes megabytes of each connection at once, which no wide area link does: a sender would think them
 * sent, and could not take them back. Connections inherit the buffer of the listening socket (socket(7)).
 */
function limitBuffers(fd) {
  const setsockopt = koffi.load('libc.so.6').func('int setsockopt(int, int, int, const int *, uint32_t)');
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, [RECEIVE_BYTES], 4) !== 0) throw new Error('setsockopt failed');
}

async function bundledServer() {
  const outfile = path.join(project, 'node_modules/.cache/capture-bench/s3-server.mjs');
  await build({
    absWorkingDir: project,
    entryPoints: ['test/s3-server/server.ts'],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
  });
  return import(outfile);
}

/** The machine is gone: it, and all that it has started, at once. */
function killTree(pid) {
  const below = (of) => {
    let names = '';
    try {
      names = fs.readFileSync(`/proc/${of}/task/${of}/children`, 'utf8');
    } catch {
      // Ended meanwhile.
    }
    return [
      of,
      ...names
        .split(' ')
        .filter(Boolean)
        .flatMap((name) => below(Number(name))),
    ];
  };
  for (const one of below(pid)) {
    try {
      process.kill(one, 'SIGKILL');
    } catch {
      // The same.
    }
  }
}

async function until(check) {
  while (!check())
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
}

function isHere(name) {
  try {
    execFileSync(name, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

function percent(part, whole) {
  return `${((100 * part) / whole).toFixed(1)} %`;
}

function seconds(fromMs, toMs) {
  return `${((toMs - fromMs) / 1000).toFixed(1)} s`;
}
