// What only the AWS SDK supports: directory buckets, access points, transfer acceleration. It is a separate file of the
// program (build.mjs), which a run with an ordinary bucket never loads. It resolves the endpoint of such a bucket, and
// starts uploads of large bodies (lib-storage). It knows nothing of the rest of this driver.
import type { Readable } from 'node:stream';
import { type PutObjectCommandInput, S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import type { HttpRequest, HttpResponse } from '@smithy/core/protocols';
import type { RetryStrategyV2 } from '@smithy/types';
import { StoreError } from '../contract/store.ts';
import type { KeySource } from './credentials.ts';
import { SILENT } from './handler.ts';
import type { ObjectParams } from './object-options.ts';

/** A bucket, and the settings of environment and profile for its endpoint. */
export interface Reach {
  /** Its name, or the ARN of an access point. */
  readonly bucket: string;
  readonly region: string;
  /** Replaces Amazon's endpoint. */
  readonly endpoint: string | undefined;
  readonly isFips: boolean;
  readonly isDualStack: boolean;
  readonly isAccelerated: boolean;
  readonly inPath: boolean;
}

export interface Endpoint {
  readonly url: URL;
  /** For the signature: `s3`, or `s3express` for directory buckets. */
  readonly service: string;
  /** For the signature: the region of the access point. */
  readonly region: string;
}

/** The endpoint by Amazon's own rules. Throws a StoreError `refused` if the rules allow none. */
export function endpointOf(reach: Reach): Endpoint {
  const { config } = new S3Client(configOf(reach));
  try {
    const { url, properties } = config.endpointProvider({
      Bucket: reach.bucket,
      Region: reach.region,
      Endpoint: reach.endpoint,
      UseFIPS: reach.isFips,
      UseDualStack: reach.isDualStack,
      Accelerate: reach.isAccelerated,
      ForcePathStyle: reach.inPath,
      UseArnRegion: true,
    });
    const scheme = properties?.authSchemes?.[0];
    return { url, service: scheme?.signingName ?? 's3', region: scheme?.signingRegion ?? reach.region };
  } catch (cause) {
    throw new StoreError('refused', `s3://${reach.bucket}: ${(cause as Error).message}`, {
      hint: 'check the name, AWS_REGION, AWS_ENDPOINT_URL, use_accelerate_endpoint and --path-style',
      cause,
    });
  }
}

function configOf({ region, endpoint, isFips, isDualStack, isAccelerated, inPath }: Reach) {
  // The SDK's warning about old Node versions would go to the task's terminal.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
  return {
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    useFipsEndpoint: isFips,
    useDualstackEndpoint: isDualStack,
    useAccelerateEndpoint: isAccelerated,
    forcePathStyle: inPath,
    useArnRegion: true,
    logger: SILENT,
  };
}

/** How the requests of an upload are sent and retried. */
export interface UploadRules {
  readonly reach: Reach;
  readonly keys: KeySource;
  /** Set for a directory bucket. */
  readonly session: KeySource | undefined;
  /** How far the server's clock is ahead of ours, ms. */
  readonly aheadMs: number;
  readonly handle: (request: HttpRequest) => Promise<HttpResponse>;
  readonly retryStrategy: RetryStrategyV2;
}

/** The object, and its bytes in pieces. */
export interface UploadBody {
  readonly key: string;
  readonly meta: Record<string, string>;
  readonly params: ObjectParams;
  readonly condition: { readonly IfNoneMatch?: string; readonly IfMatch?: string };
  readonly chunks: Readable;
  readonly partBytes: number;
  readonly partsAtOnce: number;
  readonly abortController: AbortController;
}

/** An upload that has not started. It never aborts anything in the bucket: the caller does that. */
export function newUpload(rules: UploadRules, body: UploadBody): Upload {
  const { keys, session } = rules;
  const client = new S3Client({
    ...configOf(rules.reach),
    // Called for each request, because the keys may have been renewed.
    credentials: async () => ({ ...(await keys()), expiration: new Date() }),
    // The SDK's own provider ends the process if a session cannot be renewed.
    ...(session === undefined
      ? {}
      : { s3ExpressIdentityProvider: { getS3ExpressIdentity: () => session() } }),
    systemClockOffset: rules.aheadMs,
    requestHandler: { handle: async (request: HttpRequest) => ({ response: await rules.handle(request) }) },
    retryStrategy: rules.retryStrategy,
    // The signed hash already covers each body.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
  });
  return new Upload({
    client,
    params: {
      Bucket: rules.reach.bucket,
      Key: body.key,
      Metadata: body.meta,
      ...(body.params as Partial<PutObjectCommandInput>),
      Body: body.chunks,
      ...body.condition,
    },
    partSize: body.partBytes,
    queueSize: body.partsAtOnce,
    leavePartsOnError: true,
    abortController: body.abortController,
  });
}
