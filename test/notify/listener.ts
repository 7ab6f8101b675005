// A server that is notified: keeps what it was sent, and answers what the test says.
import http from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

export interface Listener {
  readonly url: string;
  readonly got: readonly Record<string, unknown>[];
  /** Of the next answers; then 200. */
  answers: number[];
  /** Where answers send on to. */
  location: string | undefined;
  close(): Promise<void>;
}

export async function openListener(): Promise<Listener> {
  const got: Record<string, unknown>[] = [];
  const server = http.createServer((request, response) => {
    void json(request).then((body) => {
      got.push(body as Record<string, unknown>);
      const { answers, location } = listener;
      const headers = { connection: 'close', ...(location === undefined ? {} : { location }) };
      response.writeHead(answers.shift() ?? 200, headers).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const listener: Listener = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=secret`,
    got,
    answers: [],
    location: undefined,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return listener;
}
