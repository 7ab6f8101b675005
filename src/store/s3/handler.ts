// Sends the requests of the SDK's clients over our sockets, through our proxy and with our limits (the interface
// HttpHandler of @smithy/types).
import { Readable } from 'node:stream';
import { buildQueryString, HttpResponse, type HttpRequest } from '@smithy/core/protocols';
import { textOf } from '../http/body.ts';
import type { Answer, Outgoing, Transport } from '../http/transport.ts';

function ignore(): void {}

/** The SDK's own logger would write to the task's terminal. */
export const SILENT = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };

export function handlerOf(transport: Transport) {
  return {
    metadata: { handlerProtocol: 'http/1.1' },
    handle: async (request: HttpRequest, { abortSignal }: { abortSignal?: AbortSignal } = {}) => {
      const answer = await transport.send(outgoingOf(request), abortSignal);
      // Read completely, within a limit, because credentials are short.
      const text = await textOf(answer);
      return { response: responseOf(answer, Readable.from([Buffer.from(text)])) };
    },
    updateHttpClientConfig: ignore,
    httpHandlerConfigs: () => ({}),
    destroy: ignore,
  };
}

export function outgoingOf({
  protocol,
  hostname,
  port,
  method,
  headers,
  path,
  query,
  body,
}: HttpRequest): Outgoing {
  const isTls = protocol === 'https:';
  const search = buildQueryString(query);
  return {
    server: { isTls, host: hostname, port: port ?? (isTls ? 443 : 80) },
    method,
    path: search === '' ? path : `${path}?${search}`,
    headers,
    body,
  };
}

export function responseOf({ status, headers }: Answer, body: unknown): HttpResponse {
  const flat = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return new HttpResponse({ statusCode: status, headers: Object.fromEntries(flat), body });
}
