// Serves the numbers at GET /metrics, to whoever can reach the address. Nothing of a request is believed but its path.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { MetricsPlace } from '../model/format/settings.ts';
import type { Metrics } from './numbers.ts';

/** Connections at once; a scraper has one. */
const MOST_CONNECTIONS = 16;
/** A request has no body and comes at once. */
const REQUEST_WITHIN_MS = 5000;

/** Rejects if nobody can listen there: in use, or no address of this machine. */
export async function listen(
  { host, port }: Extract<MetricsPlace, { kind: 'listen' }>,
  text: () => Promise<string>,
  contentType: string,
): Promise<Metrics> {
  const limits = { requestTimeout: REQUEST_WITHIN_MS, headersTimeout: REQUEST_WITHIN_MS };
  const server = http.createServer(limits, (request, response) => {
    const { url = '', method = '' } = request;
    const asked = url.replace(/\?.*/, '');
    if (asked !== '/metrics') return void response.writeHead(404).end('look at /metrics\n');
    if (method !== 'GET' && method !== 'HEAD') return void response.writeHead(405, { allow: 'GET' }).end();
    text().then(
      (body) => response.writeHead(200, { 'content-type': contentType }).end(body),
      () => response.writeHead(500).end(),
    );
  });
  server.maxConnections = MOST_CONNECTIONS;
  server.listen(port, host);
  await once(server, 'listening');
  // Numbers keep no process alive.
  server.unref();
  const { address, port: bound, family } = server.address() as AddressInfo;
  const shown = family === 'IPv6' ? `[${address}]` : address;
  return {
    where: `http://${shown}:${bound}/metrics`,
    look: async () => undefined,
    close: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
