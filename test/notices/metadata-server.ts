// A metadata service of a test on loopback: it answers what the test says, and remembers each question.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Asked {
  readonly method: string;
  /** Path and query, as they came. */
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** `silent`: the connection is taken, and nothing is ever said (a hop limit). */
export type Answering = (asked: Asked) => Reply | 'silent' | Promise<Reply>;

export interface MetadataServer {
  /** `127.0.0.1:41234` */
  readonly host: string;
  readonly url: string;
  readonly asked: Asked[];
  /** How often a path was asked for. */
  count(path: string): number;
  answer: Answering;
  close(): Promise<void>;
}

export async function metadataServer(answer: Answering): Promise<MetadataServer> {
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const asked = { method, url, headers, body: Buffer.concat(chunks).toString() };
      self.asked.push(asked);
      Promise.resolve(self.answer(asked)).then(
        (reply) => {
          if (reply === 'silent') return;
          response.writeHead(reply.status ?? 200, reply.headers).end(reply.body ?? '');
        },
        () => response.destroy(),
      );
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const self: MetadataServer = {
    host,
    url: `http://${host}`,
    asked: [],
    count: (path) => self.asked.filter(({ url }) => url === path).length,
    answer,
    close: async () => {
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
    },
  };
  return self;
}
