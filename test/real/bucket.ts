// Before the real-world tests: makes the bucket they work in. It must fail loudly without a server, for a
// real-world test that finds none has tested nothing.
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';

/** The store of the real-world tests, from `CAPTURE_TEST_S3_URL` (`s3://bucket/prefix`). */
export function realStore(): { readonly url: string; readonly bucket: string; readonly prefix: string } {
  const url = process.env['CAPTURE_TEST_S3_URL'];
  const [, bucket, prefix] = /^s3:\/\/([^/]+)\/(.+)$/.exec(url ?? '') ?? [];
  if (url === undefined || bucket === undefined || prefix === undefined) {
    throw new Error(
      `CAPTURE_TEST_S3_URL is ${url ?? 'unset'}, not s3://bucket/prefix; try: npm run test:real`,
    );
  }
  return { url, bucket, prefix };
}

/** Vitest's global set-up. */
export async function setup(): Promise<void> {
  const client = new S3Client({});
  try {
    await client.send(new CreateBucketCommand({ Bucket: realStore().bucket }));
  } finally {
    client.destroy();
  }
}
