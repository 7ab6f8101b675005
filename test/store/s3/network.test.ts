// The way to the server: proxies and certificates.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { proxyFor } from '../../../src/store/http/proxy.ts';
import { startS3Server, type S3Server } from '../../s3-server/server.ts';
import { newMeta, textOf } from '../contract.ts';
import { openS3, setEnv } from './setup.ts';

interface Proxy {
  readonly url: string;
  /** `CONNECT host:port` or `PUT http://host:port/path`, in order. */
  readonly seen: string[];
  readonly headers: http.IncomingHttpHeaders[];
  stop(): void;
}

/** A proxy that tunnels and forwards; with `status`, one that refuses; with `tls`, one that is reached by TLS. */
async function startProxy(
  status = 200,
  tls?: { readonly key: string; readonly cert: string },
): Promise<Proxy> {
  const seen: string[] = [];
  const headers: http.IncomingHttpHeaders[] = [];
  const note = (request: http.IncomingMessage): void => {
    seen.push(`${request.method} ${request.url}`);
    headers.push(request.headers);
  };
  const forward = (request: http.IncomingMessage, response: http.ServerResponse): void => {
    note(request);
    const target = http.request(
      request.url ?? '',
      { method: request.method, headers: request.headers },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    target.on('error', () => response.destroy());
    request.pipe(target);
  };
  const server = tls === undefined ? http.createServer(forward) : https.createServer(tls, forward);
  const sockets = new Set<net.Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.on('connect', (request, socket) => {
    note(request);
    if (status !== 200) return socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`);
    const [host = '', port] = (request.url ?? '').split(':');
    const target = net.connect(Number(port), host, () => socket.write('HTTP/1.1 200 OK\r\n\r\n'));
    sockets.add(target);
    target.on('error', () => socket.destroy());
    socket.on('error', () => target.destroy());
    return target.pipe(socket).pipe(target);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = (): void => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  const scheme = tls === undefined ? 'http' : 'https';
  return { url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, headers, stop };
}

describe('proxyFor', () => {
  const s3 = { protocol: 'https:', host: 'lab.s3.amazonaws.com', port: 443 };
  it.each([
    [{ HTTPS_PROXY: 'http://p:3128' }, 'http://p:3128/'],
    [{ https_proxy: 'p:3128', HTTPS_PROXY: 'http://q' }, 'http://p:3128/'],
    [{ HTTP_PROXY: 'http://p:3128' }, undefined],
    [{ HTTPS_PROXY: '' }, undefined],
    [{ HTTPS_PROXY: 'p', NO_PROXY: '*' }, undefined],
    [{ HTTPS_PROXY: 'p', NO_PROXY: 'x.org, amazonaws.com' }, undefined],
    [{ HTTPS_PROXY: 'p', NO_PROXY: '.AmazonAWS.com' }, undefined],
    [{ HTTPS_PROXY: 'p', NO_PROXY: '*.amazonaws.com' }, undefined],
    [{ HTTPS_PROXY: 'p', no_proxy: 'lab.s3.amazonaws.com:443' }, undefined],
    [{ HTTPS_PROXY: 'p', NO_PROXY: 'lab.s3.amazonaws.com:80' }, 'http://p/'],
    [{ HTTPS_PROXY: 'p', NO_PROXY: 'aws.com' }, 'http://p/'],
  ])('reads %j as %j', (env, expected) => {
    expect(proxyFor(s3, env)?.href).toBe(expected);
  });

  it.each([
    ['::1', undefined],
    ['[::1]', undefined],
    ['[::1]:9000', undefined],
    ['[::1]:80', 'http://p/'],
    ['::2', 'http://p/'],
  ])('reads the IPv6 address of NO_PROXY=%s', (exempt, expected) => {
    const target = { protocol: 'http:', host: '::1', port: 9000 };
    expect(proxyFor(target, { HTTP_PROXY: 'p', NO_PROXY: exempt })?.href).toBe(expected);
  });

  // Domains and IPv4 networks as curl 7.88 and Python's requests 2.34 were seen to read them, ports as botocore. IPv6
  // networks, `*.domain` and a dot at the end are for those who write them so.
  it.each([
    ['10.1.2.3', '10.0.0.0/8', true],
    ['10.1.2.3', '10.9.9.9/8', true],
    ['11.1.2.3', '10.0.0.0/8', false],
    ['10.1.2.3', '10.1.2.3/32', true],
    ['10.1.2.4', '10.1.2.3/32', false],
    ['10.1.2.3', '0.0.0.0/0', true],
    ['192.168.3.1', '192.168.0.0/22', true],
    ['192.168.4.1', '192.168.0.0/22', false],
    ['10.1.2.3', 'x.org, 10.0.0.0/8,', true],
    ['10.1.2.3', '10.0.0.0/33', false],
    ['10.1.2.3', '10.0.0.0/', false],
    ['10.1.2.3', '10.0.0.0/8/8', false],
    ['10.1.2.3', '10/8', false],
    ['10.1.2.3', '.2.3', false],
    ['10.1.2.3', '10.1.2.3:9000', true],
    ['10.1.2.3', '10.1.2.3:80', false],
    ['fd12::1', 'fd00::/8', true],
    ['fe80::1', 'fd00::/8', false],
    ['::1', '::/0', true],
    ['fd12::1', '10.0.0.0/8', false],
    ['10.1.2.3', 'fd00::/8', false],
    ['fd12::1', 'FD12:0:0:0:0:0:0:1', true],
    ['fd12::1', '[fd12:0::1]:9000', true],
    ['host.example.org', '10.0.0.0/8', false],
    ['host.example.org', '0.0.0.0/0', false],
    ['host.example.org', '.example.org', true],
    ['host.example.org', '*.example.org', true],
    ['host.example.org', 'example.org', true],
    ['host.example.org.', 'example.org', true],
    ['host.example.org', 'example.org.', true],
    ['example.org', 'example.org', true],
    ['notexample.org', 'example.org', false],
    ['notexample.org', '.example.org', false],
    ['example.org.evil.net', 'example.org', false],
    ['host.example.org', 'host.example.org:9000', true],
    ['host.example.org', 'host.example.org:443', false],
    ['host.example.org', '.', false],
    ['host.example.org', '*', true],
    ['localhost', '', false],
  ])('goes to %s without the proxy with NO_PROXY=%s: %s', (host, exempt, isStraight) => {
    const target = { protocol: 'http:', host, port: 9000 };
    expect(proxyFor(target, { HTTP_PROXY: 'p', NO_PROXY: exempt }) === undefined).toBe(isStraight);
  });

  it('refuses what is not an address, without repeating it', () => {
    expect(() => proxyFor(s3, { HTTPS_PROXY: 'http://user:secret@:bad:' })).toThrow(
      /^HTTPS_PROXY is no address/,
    );
  });

  it('refuses a kind of proxy that would get its password in another way', () => {
    expect(() => proxyFor(s3, { HTTPS_PROXY: 'socks5://user:secret@host:1080' })).toThrow(
      /^HTTPS_PROXY names a proxy of a kind that is not known \(socks5:\/\/\)$/,
    );
  });
});

describe('the S3 store goes', () => {
  let dir: string;
  let server: S3Server;
  let proxy: Proxy;
  let tls: S3Server;
  let restore: () => void = () => undefined;
  beforeEach(async () => {
    dir = fs.mkdtempSync(join(os.tmpdir(), 's3-network-'));
    const [key, cert] = [`${dir}/key.pem`, `${dir}/cert.pem`];
    const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
    const args = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-days',
      '2',
    ];
    execFileSync('openssl', [...args, ...subject, '-keyout', key, '-out', cert], { stdio: 'pipe' });
    server = await startS3Server();
    tls = await startS3Server({
      tls: { key: fs.readFileSync(key, 'utf8'), cert: fs.readFileSync(cert, 'utf8') },
    });
    proxy = await startProxy();
  });
  afterEach(async () => {
    restore();
    proxy.stop();
    await server.stop();
    await tls.stop();
    fs.rmSync(dir, { recursive: true });
  });

  async function roundTrip(env: Readonly<Record<string, string>>): Promise<string> {
    restore = setEnv(env);
    const store = await openS3('s3://lab/run7', 0);
    try {
      await store.put('r dat', Buffer.from('bytes'), { meta: newMeta() });
      return await textOf((await store.get('r dat'))?.body);
    } finally {
      await store.close();
      restore();
    }
  }

  it('through the proxy to a plain server, by complete addresses', async () => {
    expect(await roundTrip({ ...server.env, HTTP_PROXY: proxy.url.replace('//', '//us%20er:pass@') })).toBe(
      'bytes',
    );
    expect(proxy.seen[0]).toBe(`PUT ${server.url}/lab/run7/r%20dat`);
    expect(proxy.seen).toHaveLength(2);
    expect(proxy.headers[0]?.['proxy-authorization']).toBe(
      `Basic ${Buffer.from('us er:pass').toString('base64')}`,
    );
  });

  it('through the proxy to a server with an IPv6 address, which has brackets', async () => {
    const refusing = await startProxy(403);
    for (const scheme of ['http', 'https']) {
      const name = `${scheme.toUpperCase()}_PROXY`;
      const env = { ...server.env, AWS_ENDPOINT_URL_S3: `${scheme}://[::1]:9`, [name]: refusing.url };
      await expect(roundTrip(env)).rejects.toMatchObject({ name: 'StoreError' });
    }
    const [plain] = refusing.seen;
    expect([plain, refusing.seen.at(-1)]).toEqual(['PUT http://[::1]:9/lab/run7/r%20dat', 'CONNECT [::1]:9']);
    refusing.stop();
  });

  it('through one tunnel to a server with TLS', async () => {
    expect(await roundTrip({ ...tls.env, HTTPS_PROXY: proxy.url, AWS_CA_BUNDLE: `${dir}/cert.pem` })).toBe(
      'bytes',
    );
    expect(proxy.seen).toEqual([`CONNECT ${tls.url.replace('https://', '')}`]);
  });

  describe('through a proxy that uses TLS', () => {
    const withPassword = (url: string): string => url.replace('//', '//user:pass@');
    const PASSWORD = `Basic ${Buffer.from('user:pass').toString('base64')}`;
    let secure: Proxy;
    const own = (): { key: string; cert: string } => ({
      key: fs.readFileSync(`${dir}/key.pem`, 'utf8'),
      cert: fs.readFileSync(`${dir}/cert.pem`, 'utf8'),
    });
    beforeEach(async () => {
      secure = await startProxy(200, own());
    });
    afterEach(() => secure.stop());

    it.each(['http', 'https'] as const)('to a server with %s', async (scheme) => {
      const target = scheme === 'http' ? server : tls;
      const variable = `${scheme.toUpperCase()}_PROXY`;
      const env = { [variable]: withPassword(secure.url), AWS_CA_BUNDLE: `${dir}/cert.pem` };
      expect(await roundTrip({ ...target.env, ...env })).toBe('bytes');
      expect(secure.seen[0]).toBe(
        scheme === 'http'
          ? `PUT ${server.url}/lab/run7/r%20dat`
          : `CONNECT ${tls.url.replace('https://', '')}`,
      );
      expect(secure.headers[0]?.['proxy-authorization']).toBe(PASSWORD);
    });

    it.each(['http', 'https'] as const)(
      'but sends nothing to a proxy that is not trusted (%s)',
      async (scheme) => {
        const variable = `${scheme.toUpperCase()}_PROXY`;
        const env = { [variable]: withPassword(secure.url) };
        const outcome = roundTrip({ ...(scheme === 'http' ? server : tls).env, ...env });
        await expect(outcome).rejects.toMatchObject({
          kind: 'refused',
          message: expect.stringContaining(
            `the certificate of the proxy ${secure.url.slice(8)} is not trusted`,
          ),
          hint: expect.stringContaining('AWS_CA_BUNDLE'),
        });
        expect(secure.seen).toEqual([]);
      },
    );

    it.each(['http', 'https'] as const)('nor in clear text to one without TLS (%s)', async (scheme) => {
      const got: Buffer[] = [];
      const listener = net.createServer((socket) => {
        socket.on('error', () => undefined);
        socket.once('data', (bytes) => {
          got.push(bytes);
          socket.end('HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n');
        });
      });
      listener.listen(0, '127.0.0.1');
      await once(listener, 'listening');
      const url = `https://user:pass@127.0.0.1:${(listener.address() as AddressInfo).port}`;
      const target = `${scheme}://store.example:9000`;
      const env = { ...server.env, AWS_ENDPOINT_URL_S3: target, [`${scheme.toUpperCase()}_PROXY`]: url };
      await expect(roundTrip(env)).rejects.toMatchObject({
        kind: 'transient',
        message: expect.stringContaining('EPROXY'),
      });
      listener.close();
      // A handshake of TLS (RFC 8446, section 5.1).
      expect(got.length).toBeGreaterThan(0);
      for (const bytes of got) expect(bytes[0]).toBe(22);
    });
  });

  it('directly if NO_PROXY says so', async () => {
    expect(await roundTrip({ ...server.env, HTTP_PROXY: proxy.url, NO_PROXY: 'localhost,127.0.0.1' })).toBe(
      'bytes',
    );
    const secure = { ...tls.env, AWS_CA_BUNDLE: `${dir}/cert.pem` };
    expect(await roundTrip({ ...secure, HTTPS_PROXY: proxy.url, NO_PROXY: '127.0.0.1' })).toBe('bytes');
    expect(proxy.seen).toEqual([]);
  });

  it('nowhere if the proxy refuses, and reports its answer', async () => {
    const closed = await startProxy(407);
    const outcome = roundTrip({ ...tls.env, HTTPS_PROXY: closed.url });
    await expect(outcome).rejects.toMatchObject({
      kind: 'transient',
      message: expect.stringContaining('EPROXY'),
    });
    await expect(outcome).rejects.toMatchObject({ hint: expect.stringContaining('HTTPS_PROXY') });
    closed.stop();
  });

  it.each([301, 302, 303, 307, 308])('nowhere else if the server redirects (%i)', async (status) => {
    const plain = await startProxy();
    const elsewhere = [`${plain.url}/lab/run7/r%20dat`, `//${plain.url.slice(7)}/lab/run7/r%20dat`];
    for (const [from, location] of [
      [server, elsewhere[0]],
      [server, elsewhere[1]],
      [tls, elsewhere[0]],
    ] as const) {
      from.fault = () => ({ kind: 'answer', status, headers: { location: location ?? '' } });
      const env = { ...from.env, AWS_CA_BUNDLE: `${dir}/cert.pem` };
      await expect(roundTrip(env)).rejects.toMatchObject({ name: 'StoreError', kind: 'refused' });
      expect(from.served).not.toEqual([]);
    }
    expect(plain.seen).toEqual([]);
    plain.stop();
  });

  it('only to servers whose certificate it can check', async () => {
    await expect(roundTrip(tls.env)).rejects.toMatchObject({
      kind: 'refused',
      hint: expect.stringContaining('AWS_CA_BUNDLE'),
    });
    await expect(roundTrip({ ...tls.env, AWS_CA_BUNDLE: '/no/such/bundle' })).rejects.toThrow(
      /AWS_CA_BUNDLE.*\/no\/such\/bundle/,
    );
  });
});
