// What is allowed on the way to a store, but probably not meant, is said once by each command, and never past its log.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startS3Server, type S3Server } from '../s3-server/server.ts';
import { openPlace, type Place } from './support.ts';

let place: Place;
let server: S3Server | undefined;
let proxy: http.Server | undefined;
beforeEach(() => {
  place = openPlace();
});
afterEach(async () => {
  proxy?.closeAllConnections();
  proxy?.close();
  await server?.stop();
  [server, proxy] = [undefined, undefined];
  place.close();
});

const AT = ['s3://lab/run', '--path-style'];
const TASK = ['-r', 'r.dat', '--', 'sh', '-c', 'echo 1 >r.dat'];
const COMMANDS = [
  ['run', '--index=0', '--from=s3://lab/inputs', '--to', ...AT, ...TASK],
  ['restore', '--index=0', '--to', ...AT, '-r', 'r.dat', '--task-name=sh'],
  ['array', '--array=0-1', '--to', ...AT, ...TASK],
  ['status', ...AT, '--task-name=sh'],
] as const;

/** What each of the commands says of the way: none may fail. */
async function said(env: NodeJS.ProcessEnv, pattern: RegExp): Promise<readonly (readonly string[])[]> {
  const all: (readonly string[])[] = [];
  for (const words of COMMANDS) {
    const run = place.capture(words, { NO_PROXY: '', no_proxy: '', ...env });
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).not.toContain('(node:');
    all.push(
      run
        .stderr()
        .split('\n')
        .filter((line) => pattern.test(line)),
    );
  }
  return all;
}

const PLAIN = /signed, but not encrypted/;
const UNCHECKED = /NODE_TLS_REJECT_UNAUTHORIZED/;
const ONCE = COMMANDS.map(() => [expect.stringContaining('warning: ')]);
const NEVER = COMMANDS.map(() => []);

/** Stands for a network: any host that is asked for is the server. */
async function startNetwork(to: S3Server): Promise<string> {
  const { hostname, port } = new URL(to.url);
  proxy = http.createServer((request, response) => {
    const { pathname, search } = new URL(request.url ?? '');
    const { method, headers } = request;
    const target = http.request({ hostname, port, method, headers, path: pathname + search }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    target.on('error', () => response.destroy());
    request.pipe(target);
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}

it('requests without TLS to another machine', async () => {
  server = await startS3Server();
  const env = { ...server.env, AWS_ENDPOINT_URL_S3: 'http://store.test:9000' };
  expect(await said({ ...env, HTTP_PROXY: await startNetwork(server) }, PLAIN)).toEqual(ONCE);
});

it('nothing of those to this machine', async () => {
  server = await startS3Server();
  expect(await said(server.env, PLAIN)).toEqual(NEVER);
});

it('that no certificate is checked', async () => {
  const [key, cert] = [path.join(place.dir, 'key.pem'), path.join(place.dir, 'cert.pem')];
  const kind = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const about = ['-subj', '/CN=other', '-days', '2', '-keyout', key, '-out', cert];
  execFileSync('openssl', [...kind, ...about], { stdio: 'pipe' });
  const tls = { key: fs.readFileSync(key, 'utf8'), cert: fs.readFileSync(cert, 'utf8') };
  server = await startS3Server({ tls });
  const env = { ...server.env, NODE_TLS_REJECT_UNAUTHORIZED: '0' };
  expect(await said(env, UNCHECKED)).toEqual(ONCE);
});
