// What is in a store, read by other means than capture's own drivers: the tests judge those, too.
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { decompress } from 'zstd-napi';

export interface Objects {
  /** All keys below the store's prefix, relative to it. */
  keys(): Promise<readonly string[]>;
  /** By key what tells one content of an object, and one time that it was put, from another. */
  versions(): Promise<ReadonlyMap<string, string>>;
  /** The bytes as stored. */
  bytes(key: string): Promise<Buffer>;
  close(): void;
}

/** Opens `file:///dir` or `s3://bucket/prefix`. */
export function openObjects(url: string): Objects {
  const { protocol, hostname, pathname } = new URL(url);
  return protocol === 's3:' ? inBucket(hostname, `${pathname.slice(1)}/`) : inDirectory(fileURLToPath(url));
}

function inDirectory(dir: string): Objects {
  const keys = async (): Promise<readonly string[]> => {
    const entries = await readdir(dir, { recursive: true, withFileTypes: true });
    return (
      entries
        .filter((entry) => entry.isFile())
        .map((entry) => path.relative(dir, path.join(entry.parentPath, entry.name)))
        // The driver's own: metadata and temporaries (docs/object-layout.md).
        .filter((key) => !key.startsWith('.capture-store/'))
    );
  };
  const versionOf = async (key: string): Promise<[string, string]> => {
    const { ino, mtimeNs } = await stat(path.join(dir, key), { bigint: true });
    return [key, `${ino} ${mtimeNs}`];
  };
  return {
    keys,
    versions: async () => new Map(await Promise.all((await keys()).map(versionOf))),
    bytes: (key) => readFile(path.join(dir, key)),
    close: () => {},
  };
}

function inBucket(bucket: string, prefix: string): Objects {
  const client = new S3Client({});
  const versions = async (): Promise<ReadonlyMap<string, string>> => {
    const listed = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix }));
    if (listed.IsTruncated === true)
      throw new Error(`more than 1,000 objects below s3://${bucket}/${prefix}`);
    return new Map(
      (listed.Contents ?? []).map(({ Key = '', ETag, LastModified }) => [
        Key.slice(prefix.length),
        `${ETag} ${LastModified?.toISOString()}`,
      ]),
    );
  };
  return {
    keys: async () => [...(await versions()).keys()],
    versions,
    bytes: async (key) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: prefix + key }));
      if (Body === undefined) throw new Error(`no body: s3://${bucket}/${prefix}${key}`);
      return Buffer.from(await Body.transformToByteArray());
    },
    close: () => client.destroy(),
  };
}

/** The uncompressed content of `<key>` or `<key>.zst`; throws when neither or both are there. */
export async function contentOf(objects: Objects, key: string): Promise<Buffer> {
  const found = (await objects.keys()).filter((name) => name === key || name === `${key}.zst`);
  const [only] = found;
  if (only === undefined || found.length > 1) {
    throw new Error(`one object ${key}[.zst] expected, there: ${found.join(', ') || 'none'}`);
  }
  const bytes = await objects.bytes(only);
  return only.endsWith('.zst') ? decompress(bytes) : bytes;
}
