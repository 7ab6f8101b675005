// What the AWS environment and files say before anything is sent: the region, the server, and whose keys. In the SDK's
// order, by the SDK's own readers. Must never name a secret.
import net from 'node:net';
import os from 'node:os';
import {
  booleanSelector,
  loadConfig,
  NODE_REGION_CONFIG_FILE_OPTIONS,
  NODE_REGION_CONFIG_OPTIONS,
  NODE_USE_DUALSTACK_ENDPOINT_CONFIG_OPTIONS,
  NODE_USE_FIPS_ENDPOINT_CONFIG_OPTIONS,
  resolveRegionConfig,
  SelectorType,
} from '@smithy/core/config';
import { StoreError } from '../contract/store.ts';
import type { Keys, KeySource } from './credentials.ts';
import { hostOf } from './proxy.ts';
import type { Endpoint, Reach } from './sdk.ts';
import type { Server, Transport } from './transport.ts';
import { isOrdinary } from './url.ts';

/** S3 needs a region in the signature; servers of one's own take any. */
const DEFAULT_REGION = 'us-east-1';

/** Where a bucket is. */
export interface Place {
  readonly region: string;
  readonly server: Server;
  /** `https://host:port`, as people write it. */
  readonly origin: string;
  /** The header `Host`. */
  readonly authority: string;
  /** What stands before `/key`: empty when the host names the bucket. */
  readonly path: string;
  readonly isAws: boolean;
  /** For the signature: `s3`, or `s3express`. */
  readonly service: string;
  /** What the SDK needs, where only it finds the way. */
  readonly reach: Reach | undefined;
}

/** Asks the environment, the profile, and for the region, as the last, the metadata service of EC2. */
export async function placeOf(bucket: string, pathStyle: boolean): Promise<Place> {
  nameHome();
  const regionConfig = resolveRegionConfig({
    region: loadConfig(NODE_REGION_CONFIG_OPTIONS, NODE_REGION_CONFIG_FILE_OPTIONS),
    useFipsEndpoint: loadConfig(NODE_USE_FIPS_ENDPOINT_CONFIG_OPTIONS),
  });
  const region = await regionConfig.region().catch(() => DEFAULT_REGION);
  const isFips = await regionConfig.useFipsEndpoint().catch(() => false);
  const isDualStack = await loadConfig(NODE_USE_DUALSTACK_ENDPOINT_CONFIG_OPTIONS)();
  const endpoint = await customEndpoint();
  if (endpoint !== undefined && (isFips || isDualStack)) {
    const setting = isFips ? 'AWS_USE_FIPS_ENDPOINT' : 'AWS_USE_DUALSTACK_ENDPOINT';
    throw new StoreError('refused', `${setting} and AWS_ENDPOINT_URL cannot both be set`, {
      hint: `unset ${setting}: the endpoint says which server it is`,
    });
  }
  const isAccelerated = await accelerates();
  if (isAccelerated || !isOrdinary(bucket)) {
    const { endpointOf } = await import('./sdk.ts');
    const reach = {
      bucket,
      region,
      endpoint: endpoint?.href.replace(/\/+$/, ''),
      isFips,
      isDualStack,
      isAccelerated,
      inPath: pathStyle,
    };
    return placeBySdk(reach, endpointOf(reach));
  }
  const url = endpoint ?? new URL(amazonUrl(region, { isFips, isDualStack }));
  return {
    region,
    isAws: endpoint === undefined || AMAZON.test(url.hostname),
    service: 's3',
    reach: undefined,
    ...placeAt(url, bucket, pathStyle),
  };
}

function placeBySdk(reach: Reach, { url, service, region }: Endpoint): Place {
  const isAws = reach.endpoint === undefined || AMAZON.test(url.hostname);
  return { region, isAws, service, reach, ...addressOf(url, url.pathname.replace(/\/+$/, '')) };
}

/** Of the profile's section `s3`, as the AWS CLI has it. */
function accelerates(): Promise<boolean> {
  return loadConfig<boolean>({
    environmentVariableSelector: () => undefined,
    configFileSelector: (profile) =>
      booleanSelector(profile, 's3.use_accelerate_endpoint', SelectorType.CONFIG),
    default: false,
  })();
}

/**
 * The SDK's readers look for files at home, and would throw where neither HOME nor the machine says where that is: a
 * container that runs as any user. They look at USERPROFILE behind HOME; programs on Linux do not.
 */
function nameHome(): void {
  try {
    // oxlint-disable-next-line no-restricted-properties -- the one place
    os.homedir();
  } catch {
    process.env['USERPROFILE'] ??= '/';
  }
}

const AMAZON = /\.amazonaws\.(com|eu|com\.cn)$/;

/** Domains of Amazon's partitions, by how their regions begin. */
const DOMAINS: readonly (readonly [string, string])[] = [
  ['cn-', 'amazonaws.com.cn'],
  ['eusc-', 'amazonaws.eu'],
  ['us-iso-', 'c2s.ic.gov'],
  ['us-isob-', 'sc2s.sgov.gov'],
  ['eu-isoe-', 'cloud.adc-e.uk'],
  ['us-isof-', 'csp.hci.ic.gov'],
];

/** https://docs.aws.amazon.com/general/latest/gr/s3.html */
function amazonUrl(
  region: string,
  { isFips, isDualStack }: { isFips: boolean; isDualStack: boolean },
): string {
  const [, domain] = DOMAINS.find(([start]) => region.startsWith(start)) ?? ['', 'amazonaws.com'];
  return `https://s3${isFips ? '-fips' : ''}${isDualStack ? '.dualstack' : ''}.${region}.${domain}`;
}

/** A host of its own for each bucket, unless asked not to, or a certificate or an address could not name it. */
function placeAt(url: URL, bucket: string, pathStyle: boolean): Address {
  const isTls = url.protocol === 'https:';
  const isAddress = net.isIP(hostOf(url)) !== 0;
  const inPath = pathStyle || isAddress || (isTls && bucket.includes('.'));
  const named = new URL(url);
  if (!inPath) named.hostname = `${bucket}.${url.hostname}`;
  const base = url.pathname.replace(/\/+$/, '');
  return addressOf(named, inPath ? `${base}/${bucket}` : base);
}

type Address = Pick<Place, 'server' | 'origin' | 'authority' | 'path'>;

function addressOf(url: URL, path: string): Address {
  const isTls = url.protocol === 'https:';
  const server = { isTls, host: hostOf(url), port: Number(url.port || (isTls ? 443 : 80)) };
  return { server, origin: url.origin, authority: url.host, path };
}

/** `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, then `services` and `endpoint_url` of the profile (AWS SDKs and Tools guide). */
async function customEndpoint(): Promise<URL | undefined> {
  const isIgnored = await loadConfig<boolean>({
    environmentVariableSelector: (env) =>
      booleanSelector(env, 'AWS_IGNORE_CONFIGURED_ENDPOINT_URLS', SelectorType.ENV),
    configFileSelector: (profile) =>
      booleanSelector(profile, 'ignore_configured_endpoint_urls', SelectorType.CONFIG),
    default: false,
  })();
  if (isIgnored) return undefined;
  const text = await loadConfig({
    environmentVariableSelector: (env) => env['AWS_ENDPOINT_URL_S3'] || env['AWS_ENDPOINT_URL'] || undefined,
    configFileSelector: (profile, config) =>
      config?.[`services.${profile['services']}`]?.['s3.endpoint_url'] ||
      profile['endpoint_url'] ||
      undefined,
    default: '',
  })();
  if (text === '') return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol)) return url;
  throw new StoreError('refused', 'AWS_ENDPOINT_URL is no address of a server', {
    hint: 'write https://host or http://host:port',
  });
}

/**
 * A source that has nothing kept. Keys in variables are those that the SDK's chain looks at first; all else (profiles,
 * SSO, roles, ECS, EC2) takes half a MB of code, which only such a run loads.
 */
export function newKeySource(transport: Transport, region: string): KeySource {
  const fromVariables = keysOfVariables(process.env);
  if (fromVariables !== undefined) return async () => fromVariables;
  let chain: Promise<KeySource> | undefined;
  return async () => {
    chain ??= import('./credentials.ts').then(({ credentialChain }) => credentialChain(transport, region));
    return (await chain)();
  };
}

/** A profile that is asked for wins over keys in variables, as in the SDK. */
export function keysOfVariables(env: Readonly<Record<string, string | undefined>>): Keys | undefined {
  const accessKeyId = env['AWS_ACCESS_KEY_ID'];
  const secretAccessKey = env['AWS_SECRET_ACCESS_KEY'];
  if (env['AWS_PROFILE'] || !accessKeyId || !secretAccessKey) return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: env['AWS_SESSION_TOKEN'] || undefined };
}
