// Reads the AWS environment and files before anything is sent: region, server and credentials. It uses the SDK's order
// and the SDK's own readers. Must never name a secret.
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
import { bounded } from './bounded.ts';
import type { Keys, KeySource } from './credentials.ts';
import { hostOf } from '../http/proxy.ts';
import type { Endpoint, Reach } from './sdk.ts';
import type { Server, Transport } from '../http/transport.ts';
import { isOrdinary } from './url.ts';

/** S3 needs a region in the signature; self-hosted servers accept any. */
const DEFAULT_REGION = 'us-east-1';

/** Where a bucket is, and how it is addressed. */
export interface BucketLocation {
  readonly region: string;
  readonly server: Server;
  /** `https://host:port`, for people. */
  readonly origin: string;
  /** The header `Host`. */
  readonly authority: string;
  /** The path before `/key`: empty if the host name contains the bucket. */
  readonly path: string;
  readonly isAws: boolean;
  /** For the signature: `s3`, or `s3express`. */
  readonly service: string;
  /** The SDK's input, if only the SDK can resolve the endpoint. */
  readonly reach: Reach | undefined;
}

/** Each becomes a part of an address, a header or a signature. */
const PRINTABLE = [
  'AWS_REGION',
  'AWS_ENDPOINT_URL_S3',
  'AWS_ENDPOINT_URL',
  'AWS_PROFILE',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
] as const;

/** @throws StoreError if a variable has a control character: the SDK would read another region or server from it. */
export function refuseControlCharacters(env: Readonly<Record<string, string | undefined>>): void {
  const name = PRINTABLE.find((variable) => /\p{Cc}/u.test(env[variable] ?? ''));
  if (name === undefined) return;
  throw new StoreError('refused', `${name} has a control character, such as a line break`, {
    hint: `set ${name} again, to one line without a tab`,
  });
}

/** Reads the environment and the profile. For the region, it last asks EC2's metadata service. */
export async function locationOf(bucket: string, pathStyle: boolean): Promise<BucketLocation> {
  nameHome();
  const regionConfig = resolveRegionConfig({
    region: loadConfig(NODE_REGION_CONFIG_OPTIONS, NODE_REGION_CONFIG_FILE_OPTIONS),
    useFipsEndpoint: loadConfig(NODE_USE_FIPS_ENDPOINT_CONFIG_OPTIONS),
  });
  const region = await bounded(() => regionConfig.region()).catch(() => DEFAULT_REGION);
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
    return locationBySdk(reach, endpointOf(reach));
  }
  const url = endpoint ?? new URL(amazonUrl(region, { isFips, isDualStack }));
  return {
    region,
    isAws: endpoint === undefined || AMAZON.test(url.hostname),
    service: 's3',
    reach: undefined,
    ...addressAt(url, bucket, pathStyle),
  };
}

function locationBySdk(reach: Reach, { url, service, region }: Endpoint): BucketLocation {
  const isAws = reach.endpoint === undefined || AMAZON.test(url.hostname);
  return { region, isAws, service, reach, ...addressOf(url, url.pathname.replace(/\/+$/, '')) };
}

/** From the profile's section `s3`, as in the AWS CLI. */
function accelerates(): Promise<boolean> {
  return loadConfig<boolean>({
    environmentVariableSelector: () => undefined,
    configFileSelector: (profile) =>
      booleanSelector(profile, 's3.use_accelerate_endpoint', SelectorType.CONFIG),
    default: false,
  })();
}

/**
 * Sets HOME if it is missing. The SDK's readers look for files in the home directory, and would throw if neither HOME
 * nor the machine knows it, as in a container that runs as an arbitrary user. After HOME they read USERPROFILE, which
 * programs on Linux do not.
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

/** Domains of Amazon's partitions, by the prefixes of their regions. */
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

/**
 * Each bucket has its own host name, except with path-style, or if a certificate or an IP address could not name it.
 */
function addressAt(url: URL, bucket: string, pathStyle: boolean): Address {
  const isTls = url.protocol === 'https:';
  const isAddress = net.isIP(hostOf(url)) !== 0;
  const inPath = pathStyle || isAddress || (isTls && bucket.includes('.'));
  const named = new URL(url);
  if (!inPath) named.hostname = `${bucket}.${url.hostname}`;
  const base = url.pathname.replace(/\/+$/, '');
  return addressOf(named, inPath ? `${base}/${bucket}` : base);
}

type Address = Pick<BucketLocation, 'server' | 'origin' | 'authority' | 'path'>;

function addressOf(url: URL, path: string): Address {
  const isTls = url.protocol === 'https:';
  const server = { isTls, host: hostOf(url), port: Number(url.port || (isTls ? 443 : 80)) };
  return { server, origin: url.origin, authority: url.host, path };
}

/**
 * `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, then `services` and `endpoint_url` of the profile (AWS SDKs and Tools
 * guide).
 */
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
 * A new source with an empty cache. The SDK's chain looks at keys in variables first, so they are read here. All other
 * sources (profiles, SSO, roles, ECS, EC2) take half a MB of code, which only runs that need it load.
 */
export function newKeySource(transport: Transport, region: string): KeySource {
  const fromVariables = keysOfVariables(process.env);
  if (fromVariables !== undefined) return async () => fromVariables;
  let chain: Promise<KeySource> | undefined;
  return async (signal) => {
    chain ??= import('./credentials.ts').then(({ credentialChain }) => credentialChain(transport, region));
    return (await chain)(signal);
  };
}

/** A selected profile takes precedence over keys in variables, as in the SDK. */
export function keysOfVariables(env: Readonly<Record<string, string | undefined>>): Keys | undefined {
  const accessKeyId = env['AWS_ACCESS_KEY_ID'];
  const secretAccessKey = env['AWS_SECRET_ACCESS_KEY'];
  if (env['AWS_PROFILE'] || !accessKeyId || !secretAccessKey) return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: env['AWS_SESSION_TOKEN'] || undefined };
}
