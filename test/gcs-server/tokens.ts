// Who gives tokens: Google's endpoint for service accounts, the one for workload identity federation, and the metadata
// server. Each answers what its documentation says, and only to a request that proves who asks.
import { createPublicKey, generateKeyPairSync, randomUUID, verify } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Answer } from './operations.ts';

const { privateKey, publicKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

const EMAIL = 'robot@lab.iam.gserviceaccount.com';
const SUBJECT_TOKEN = 'subject-of-the-cluster';

/** The content of a file of a service account whose tokens this server gives. */
export function serviceAccountOf(url: string): string {
  return JSON.stringify({
    type: 'service_account',
    project_id: 'lab',
    private_key_id: '1',
    private_key: privateKey,
    client_email: EMAIL,
    client_id: '1',
    token_uri: `${url}/token`,
  });
}

/** The content of a file for workload identity federation, with the file of the subject's token. */
export function federationOf(url: string, tokenFile: string): string {
  return JSON.stringify({
    type: 'external_account',
    audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url: `${url}/sts`,
    credential_source: { file: tokenFile },
  });
}

export { SUBJECT_TOKEN };

interface TokenServer {
  readonly url: string;
  tokens: Set<string> | undefined;
}

/** What answers a request for a token; undefined for all other requests. */
export function tokenFor(
  target: string,
  headers: IncomingHttpHeaders,
  server: TokenServer,
): ((request: IncomingMessage) => Promise<Answer>) | undefined {
  if (target === '/token')
    return async (request) => {
      const form = new URLSearchParams(await bodyOf(request));
      return isSigned(form.get('assertion') ?? '', `${server.url}/token`)
        ? newToken(server)
        : json(400, { error: 'invalid_grant', error_description: 'Invalid JWT Signature.' });
    };
  if (target === '/sts')
    return async (request) => {
      const form = new URLSearchParams(await bodyOf(request));
      return form.get('subject_token') === SUBJECT_TOKEN
        ? newToken(server, { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' })
        : json(400, { error: 'invalid_grant', error_description: 'the subject is unknown' });
    };
  if (target.startsWith('/computeMetadata/')) {
    return async () => {
      const flavor = { 'metadata-flavor': 'Google' };
      if (headers['metadata-flavor'] !== 'Google') return { status: 403 };
      const answer = target.includes('/token') ? newToken(server) : { status: 200, body: 'default/' };
      return { ...answer, headers: { ...answer.headers, ...flavor } };
    };
  }
  return undefined;
}

function newToken(server: TokenServer, more: Readonly<Record<string, string>> = {}): Answer {
  const token = `ya29.${randomUUID()}`;
  server.tokens ??= new Set();
  server.tokens.add(token);
  return json(200, { access_token: token, expires_in: 3600, token_type: 'Bearer', ...more });
}

function isSigned(assertion: string, audience: string): boolean {
  const [head = '', claims = '', signature = ''] = assertion.split('.');
  const { iss, aud, scope } = JSON.parse(Buffer.from(claims, 'base64url').toString() || '{}') as Record<
    string,
    string
  >;
  const isRight = verify(
    'RSA-SHA256',
    Buffer.from(`${head}.${claims}`),
    createPublicKey(publicKey),
    Buffer.from(signature, 'base64url'),
  );
  return isRight && iss === EMAIL && aud === audience && scope?.includes('devstorage.read_write') === true;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function json(status: number, value: unknown): Answer {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) };
}
