// An S3 server that takes everything and keeps only what is small (records): for figures about who sends, not
// for tests of what arrives; those have test/s3-server.
import { once } from 'node:events';
import http from 'node:http';

const KEPT_BYTES = 2 ** 20;

/** Starts on a free port of 127.0.0.1; `env` is what a process needs to use it. */
export async function startSink() {
  const objects = new Map();
  const sizes = new Map();
  const server = http.createServer(async (request, response) => {
    const { pathname, searchParams: query } = new URL(request.url, 'http://sink');
    const key = decodeURIComponent(pathname).replace(/^\/lab\//, '');
    const chunks = [];
    let sizeBytes = 0;
    for await (const chunk of request) {
      sizeBytes += chunk.length;
      if (sizeBytes <= KEPT_BYTES) chunks.push(chunk);
    }
    const answer = (status, body = '', headers = {}) => response.writeHead(status, headers).end(body);
    const meta = Object.fromEntries(
      Object.entries(request.headers).filter(([name]) => name.startsWith('x-amz-meta-')),
    );
    const publish = (bytes) => {
      objects.set(key, { bytes, meta });
      sizes.set(key, bytes.length);
    };
    if (request.method === 'POST' && query.has('uploads')) return answer(200, xml('<UploadId>u</UploadId>'));
    if (request.method === 'POST' && query.has('uploadId')) {
      publish(Buffer.alloc(0));
      return answer(200, xml('<ETag>"e"</ETag>', 'CompleteMultipartUploadResult'));
    }
    if (request.method === 'PUT') {
      if (query.has('partNumber')) return answer(200, '', { etag: '"e"' });
      if (request.headers['if-none-match'] !== undefined && objects.has(key)) return answer(412);
      publish(sizeBytes <= KEPT_BYTES ? Buffer.concat(chunks) : Buffer.alloc(0));
      return answer(200, '', { etag: '"e"' });
    }
    if (request.method === 'DELETE') return answer(204);
    if (key === '' || pathname === '/lab') return answer(200, listing(query, sizes));
    const found = objects.get(key);
    if (found === undefined) return answer(404);
    return answer(200, request.method === 'HEAD' ? '' : found.bytes, {
      ...found.meta,
      'content-length': found.bytes.length,
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: 's3://lab/run',
    env: {
      AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${server.address().port}`,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'bench',
      AWS_SECRET_ACCESS_KEY: 'bench',
    },
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

function xml(body, root = 'InitiateMultipartUploadResult') {
  return `<?xml version="1.0"?><${root}>${body}</${root}>`;
}

function listing(query, sizes) {
  if (query.has('uploads')) return xml('', 'ListMultipartUploadsResult');
  const prefix = query.get('prefix') ?? '';
  const contents = [...sizes]
    .filter(([key]) => key.startsWith(prefix))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, size]) => `<Contents><Key>${key}</Key><Size>${size}</Size></Contents>`);
  return xml(`<IsTruncated>false</IsTruncated>${contents.join('')}`, 'ListBucketResult');
}
