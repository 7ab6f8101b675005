// How the store signs in: with what AZURE_STORAGE_* names, in the order of the Azure CLI, else with Microsoft Entra. It never
// shows a key or a token.
import {
  AnonymousCredential,
  BlobSASPermissions,
  BlobServiceClient,
  type BlobClient,
  type ContainerClient,
  type HttpAuthorization,
  newPipeline,
  StorageOAuthScopes,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import type { TokenCredential } from '@azure/identity';
import { type Access, StoreError } from '../contract/store.ts';
import { TunnelAgent } from '../http/agents.ts';

export interface SignIn {
  readonly container: ContainerClient;
  /** How Azure may read the source of a copy. */
  sourceOf(blob: BlobClient, signal: AbortSignal): Promise<CopySource>;
  access(signal?: AbortSignal): Promise<Access>;
  /** When a SAS ends, ms since the epoch; undefined: never, unknown, or renewed. */
  readonly expiresMs: number | undefined;
}

export interface CopySource {
  readonly url: string;
  readonly authorization?: HttpAuthorization;
}

/** A request without progress for this long gets no answer any more, ms. */
export const STALL_MS = 30_000;
/** A SAS that lets Azure read the source of a copy is valid for this long, ms. */
const COPY_MS = 60 * 60_000;

/** Throws a StoreError `refused` if the variables contradict the URL. Sends nothing to the store. */
export async function signIn(
  account: string,
  container: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<SignIn> {
  const { url, credential } = await serviceOf(account, env);
  const service = new BlobServiceClient(url, pipelineOf(url, credential));
  const client = service.getContainerClient(container);
  if (credential instanceof StorageSharedKeyCredential) {
    return {
      container: client,
      sourceOf: async (blob) => {
        const permissions = BlobSASPermissions.parse('r');
        const expiresOn = new Date(new Date().getTime() + COPY_MS);
        return { url: await blob.generateSasUrl({ permissions, expiresOn }) };
      },
      access: async () => ({ expiresMs: undefined, isSession: false, isRenewable: false }),
      expiresMs: undefined,
    };
  }
  if (credential instanceof AnonymousCredential) {
    const endMs = Date.parse(new URL(url).searchParams.get('se') ?? '');
    const expiresMs = Number.isNaN(endMs) ? undefined : endMs;
    return {
      container: client,
      // Its URL has the SAS.
      sourceOf: async (blob) => ({ url: blob.url }),
      access: async () => ({ expiresMs, isSession: true, isRenewable: false }),
      expiresMs,
    };
  }
  const tokenOf = async (abortSignal: AbortSignal | undefined) => {
    const token = await credential.getToken(StorageOAuthScopes, { abortSignal });
    if (token === null) throw Object.assign(new Error('no token'), { name: 'CredentialUnavailableError' });
    return token;
  };
  return {
    container: client,
    sourceOf: async (blob, signal) => {
      const { token } = await tokenOf(signal);
      return { url: blob.url, authorization: { scheme: 'Bearer', value: token } };
    },
    access: async (signal) => {
      const { expiresOnTimestamp } = await tokenOf(signal);
      return { expiresMs: expiresOnTimestamp, isSession: true, isRenewable: true };
    },
    expiresMs: undefined,
  };
}

interface Service {
  /** With the SAS, if there is one. */
  readonly url: string;
  readonly credential: StorageSharedKeyCredential | AnonymousCredential | TokenCredential;
}

async function serviceOf(account: string, env: NodeJS.ProcessEnv): Promise<Service> {
  const url = `https://${account}.blob.core.windows.net`;
  const connection = env['AZURE_STORAGE_CONNECTION_STRING'];
  if (connection) return connected(account, connection);
  const key = env['AZURE_STORAGE_KEY'];
  if (key) return { url, credential: new StorageSharedKeyCredential(account, key) };
  const sas = env['AZURE_STORAGE_SAS_TOKEN'];
  if (sas) return { url: `${url}?${sas.replace(/^\?/, '')}`, credential: new AnonymousCredential() };
  const { entraCredential } = await import('./identity.ts');
  return { url, credential: renewing(entraCredential()) };
}

/** Who has had a token has credentials: if there is no new one, whoever gives tokens is away, and it helps to retry. */
function renewing(credential: TokenCredential): TokenCredential {
  let hadToken = false;
  return {
    getToken: async (scopes, options) => {
      try {
        const token = await credential.getToken(scopes, options);
        hadToken ||= token !== null;
        return token;
      } catch (error) {
        if (!hadToken || options?.abortSignal?.aborted === true) throw error;
        throw new StoreError('transient', 'no new token from Microsoft Entra', {
          hint: 'check the network and HTTPS_PROXY; if a login has ended: az login',
        });
      }
    },
  };
}

/** Its BlobEndpoint may lead to a server that is not Azure's own, such as azurite. */
function connected(account: string, connection: string): Service {
  const variable = 'AZURE_STORAGE_CONNECTION_STRING';
  let service: BlobServiceClient;
  try {
    service = BlobServiceClient.fromConnectionString(connection);
  } catch {
    // What it says may hold a part of the key.
    throw new StoreError('refused', `${variable} is not a connection string with a key or a SAS`, {
      hint: 'copy it from: az storage account show-connection-string',
    });
  }
  const { url, credential } = service;
  const { accountName } = credential instanceof StorageSharedKeyCredential ? credential : service;
  if (accountName !== '' && accountName !== account) {
    throw new StoreError(
      'refused',
      `${variable} is for the account ${accountName}, and the store's URL names ${account}`,
      { hint: `az://${accountName}/..., or unset ${variable}` },
    );
  }
  return { url, credential };
}

/** An idle socket is closed after this time: others on the way may have forgotten it. */
const IDLE_MS = 15_000;

/** Retries are ours (contract/driver.ts), and so is the way through a proxy: the SDK has another NO_PROXY. */
function pipelineOf(url: string, credential: Service['credential']) {
  const isTls = new URL(url).protocol === 'https:';
  const sockets = { keepAlive: true, timeout: IDLE_MS, ca: undefined };
  const options = {
    retryOptions: { maxTries: 1 },
    userAgentOptions: { userAgentPrefix: `capture/${CAPTURE_VERSION}` },
    ...(isTls ? { agent: new TunnelAgent(sockets, STALL_MS, { ...process.env }) } : {}),
  };
  const pipeline = newPipeline(credential, options);
  // With this header Azure refuses a Put Blob whose body was damaged on its way. The SDK has no option for it.
  pipeline.factories.push({
    create: (next) => ({
      sendRequest: (request) => {
        const md5 = request.headers.get('x-ms-blob-content-md5');
        if (md5 !== undefined) request.headers.set('content-md5', md5);
        return next.sendRequest(request);
      },
    }),
  });
  return pipeline;
}
