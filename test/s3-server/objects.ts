// What the test server holds: objects with every version that was ever visible, and uploads in progress. An
// object appears in one assignment, whole.
import { createHash, randomUUID } from 'node:crypto';
import { S3Refusal } from './answers.ts';

const SMALLEST_PART_BYTES = 5 * 2 ** 20;

export type Meta = Readonly<Record<string, string>>;

/** One version that readers could see from `atMs` on; without bytes it was a deletion. */
export interface Version {
  readonly atMs: number;
  readonly etag: string;
  readonly sizeBytes: number;
  readonly meta: Meta;
  /** Undefined for a deletion, and for replaced versions when the server does not keep bytes. */
  readonly bytes: Buffer | undefined;
  readonly deleted: boolean;
}

export interface Upload {
  readonly id: string;
  readonly key: string;
  readonly meta: Meta;
  readonly parts: Map<number, { readonly bytes: Buffer; readonly etag: string }>;
}

export interface Visible extends Version {
  readonly bytes: Buffer;
}

export class Objects {
  readonly uploads = new Map<string, Upload>();
  readonly #versions = new Map<string, Version[]>();
  readonly #keepBytes: boolean;
  /** Undefined after one came or went: to sort very many for each page of a listing would take minutes. */
  #sorted: readonly string[] | undefined;
  #nextUpload = 1;
  readonly #hasMd5: boolean;

  /** Of a directory bucket: keys come in no order, and an ETag is no md5. */
  readonly isDirectory: boolean;

  /** `keepBytes` false: replaced versions lose their bytes, for long loads. */
  constructor(keepBytes: boolean, isDirectory = false, isEncrypted = false) {
    this.#keepBytes = keepBytes;
    this.isDirectory = isDirectory;
    this.#hasMd5 = !isDirectory && !isEncrypted;
  }

  versions(key: string): readonly Version[] {
    return this.#versions.get(key) ?? [];
  }

  current(key: string): Visible | undefined {
    const last = this.versions(key).at(-1);
    return last?.bytes === undefined || last.deleted ? undefined : { ...last, bytes: last.bytes };
  }

  /** Visible keys in byte order. */
  keys(): readonly string[] {
    this.#sorted ??= [...this.#versions.keys()]
      .filter((key) => this.current(key) !== undefined)
      .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    return this.#sorted;
  }

  cut(key: string, sizeBytes: number): void {
    const { bytes, meta, etag } = this.current(key) ?? { bytes: Buffer.alloc(0), meta: {}, etag: '' };
    this.publish(key, bytes.subarray(0, sizeBytes), meta, etag);
  }

  /** Other bytes and another ETag; the metadata stays. */
  exchange(key: string, etag: string, bytes: (sent: Buffer) => Buffer): void {
    const there = this.current(key);
    if (there !== undefined) this.publish(key, bytes(there.bytes), there.meta, etag);
  }

  clear(): void {
    this.#versions.clear();
    this.#sorted = undefined;
    this.uploads.clear();
  }

  publish(key: string, bytes: Buffer, meta: Meta, told = etagOf(bytes)): string {
    const etag = this.#hasMd5 ? told : `"${randomUUID()}"`;
    this.#add(key, { atMs: Date.now(), etag, sizeBytes: bytes.length, meta, bytes, deleted: false });
    return etag;
  }

  /** As if it had been stored at that time. */
  plant(key: string, bytes: Buffer, atMs: number): void {
    const sizeBytes = bytes.length;
    this.#add(key, { atMs, etag: etagOf(bytes), sizeBytes, meta: {}, bytes, deleted: false });
  }

  remove(key: string): void {
    if (this.current(key) === undefined) return;
    this.#add(key, { atMs: Date.now(), etag: '', sizeBytes: 0, meta: {}, bytes: undefined, deleted: true });
  }

  #add(key: string, version: Version): void {
    const versions = this.#versions.get(key) ?? [];
    this.#sorted = undefined;
    const last = versions.pop();
    if (last !== undefined) versions.push(this.#keepBytes ? last : { ...last, bytes: undefined });
    this.#versions.set(key, [...versions, version]);
  }

  begin(key: string, meta: Meta): Upload {
    const upload: Upload = { id: `upload-${this.#nextUpload}`, key, meta, parts: new Map() };
    this.#nextUpload += 1;
    this.uploads.set(upload.id, upload);
    return upload;
  }

  upload(id: string, key: string): Upload {
    const upload = this.uploads.get(id);
    if (upload === undefined || upload.key !== key) throw new S3Refusal(404, 'NoSuchUpload');
    return upload;
  }

  /** Joins the listed parts into an object; refuses as S3 does. */
  complete(upload: Upload, listed: readonly { readonly number: number; readonly etag: string }[]): string {
    if (listed.length === 0) throw new S3Refusal(400, 'MalformedXML');
    const bodies = listed.map(({ number, etag }, at) => {
      if (at > 0 && number <= (listed[at - 1]?.number ?? 0)) throw new S3Refusal(400, 'InvalidPartOrder');
      const part = upload.parts.get(number);
      if (part === undefined || part.etag !== etag) throw new S3Refusal(400, 'InvalidPart');
      if (at < listed.length - 1 && part.bytes.length < SMALLEST_PART_BYTES)
        throw new S3Refusal(400, 'EntityTooSmall');
      return part;
    });
    const digests = Buffer.concat(bodies.map((part) => Buffer.from(part.etag.slice(1, -1), 'hex')));
    const etag = `"${createHash('md5').update(digests).digest('hex')}-${bodies.length}"`;
    this.uploads.delete(upload.id);
    return this.publish(upload.key, Buffer.concat(bodies.map((part) => part.bytes)), upload.meta, etag);
  }
}

export function etagOf(bytes: Buffer): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}
