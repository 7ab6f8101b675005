// What only the AWS SDK can reach: directory buckets, access points, transfer acceleration. A file of its own in the
// program (build.mjs), which no run with an ordinary bucket loads. It says where such a bucket is, and begins uploads of
// large bodies (lib-storage). Knows nothing of the rest of this driver.
import type { Readable } from 'node:stream';
import { S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import type { HttpRequest, HttpResponse } from '@smithy/core/protocols';
import type { RetryStrategyV2 } from '@smithy/types';
import { StoreError } from '../contract/store.ts';
import type { KeySource } from './credentials.ts';
import { SILENT } from './handler.ts';

/** A bucket, and what environment and profile say of the way to it. */
export interface Reach {
  /** Its name, or the ARN of an access point. */
  readonly bucket: string;
  readonly region: string;
  /** Instead of Amazon's. */
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
  /** For the signature: that of the access point. */
  readonly region: string;
}

/** Where Amazon's own rules find it; throws a StoreError `refused` where they say that there is no such way. */
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
  // The SDK's warning about old Node versions would go to the terminal of the task.
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

/** How the requests of an upload are sent and tried again. */
export interface UploadRules {
  readonly reach: Reach;
  readonly keys: KeySource;
  /** Of a directory bucket. */
  readonly session: KeySource | undefined;
  /** What the server's clock is ahead of ours, ms. */
  readonly aheadMs: number;
  readonly handle: (request: HttpRequest) => Promise<HttpResponse>;
  readonly retryStrategy: RetryStrategyV2;
}

/** The object, and its bytes in pieces. */
export interface UploadBody {
  readonly key: string;
  readonly meta: Record<string, string>;
  readonly condition: { readonly IfNoneMatch?: string; readonly IfMatch?: string };
  readonly chunks: Readable;
  readonly partBytes: number;
  readonly partsAtOnce: number;
  readonly abortController: AbortController;
}

/** An upload that has not begun. It aborts nothing in the bucket, whatever fails: that is for the caller. */
export function newUpload(rules: UploadRules, body: UploadBody): Upload {
  const { keys, session } = rules;
  const client = new S3Client({
    ...configOf(rules.reach),
    // Asked anew for each request: they may have been renewed meanwhile.
    credentials: async () => ({ ...(await keys()), expiration: new Date() }),
    // The SDK's own one ends the process when a session cannot be renewed.
    ...(session === undefined ? {} : { s3ExpressIdentityProvider: { getS3ExpressIdentity: session } }),
    systemClockOffset: rules.aheadMs,
    requestHandler: { handle: async (request: HttpRequest) => ({ response: await rules.handle(request) }) },
    retryStrategy: rules.retryStrategy,
    // The hash that is signed covers each body.
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
      Body: body.chunks,
      ...body.condition,
    },
    partSize: body.partBytes,
    queueSize: body.partsAtOnce,
    leavePartsOnError: true,
    abortController: body.abortController,
  });
}
