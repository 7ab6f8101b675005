// What the test server for Cloud Storage holds: objects with their generations, and resumable uploads.
import { createHash } from 'node:crypto';

/** An error of the server, by its status and its reason. */
export class GcsRefusal extends Error {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string) {
    super(reason);
    this.name = 'GcsRefusal';
    this.status = status;
    this.reason = reason;
  }
}

export interface StoredObject {
  readonly generation: string;
  readonly bytes: Buffer;
  readonly meta: Readonly<Record<string, string>>;
  readonly cacheControl: string | undefined;
  readonly md5: string;
  readonly atMs: number;
}

/** What a new object is, but for its generation. */
export type NewObject = Pick<StoredObject, 'bytes' | 'meta' | 'cacheControl'>;

/** A generation that the object must have; 0 is none. */
export type IfGeneration = string | null | undefined;

export interface Upload {
  readonly key: string;
  readonly meta: Readonly<Record<string, string>>;
  readonly cacheControl: string | undefined;
  readonly ifGeneration: IfGeneration;
  bytes: Buffer;
  /** Once the last byte came. */
  done?: StoredObject;
}

export class Objects {
  readonly uploads = new Map<string, Upload>();
  readonly #objects = new Map<string, StoredObject>();
  /** All objects that each key has had. */
  readonly versions = new Map<string, readonly StoredObject[]>();
  #generation = BigInt(Date.now()) * 1000n;

  current(key: string): StoredObject | undefined {
    return this.#objects.get(key);
  }

  /** In the order of their UTF-8 bytes. */
  keys(): readonly string[] {
    return [...this.#objects.keys()].toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  }

  /** Throws 412 if the key has another generation. */
  check(key: string, ifGeneration: IfGeneration): void {
    if (ifGeneration === null || ifGeneration === undefined) return;
    if (!/^\d+$/.test(ifGeneration)) throw new GcsRefusal(400, 'invalid');
    if ((this.current(key)?.generation ?? '0') !== ifGeneration) throw new GcsRefusal(412, 'conditionNotMet');
  }

  put(key: string, object: NewObject, ifGeneration: IfGeneration): StoredObject {
    if (Buffer.byteLength(key) > 1024 || /[\r\n]/.test(key)) throw new GcsRefusal(400, 'invalid');
    this.check(key, ifGeneration);
    this.#generation += 1n;
    const md5 = createHash('md5').update(object.bytes).digest('base64');
    const stored = { ...object, md5, generation: String(this.#generation), atMs: Date.now() };
    this.#objects.set(key, stored);
    this.versions.set(key, [...(this.versions.get(key) ?? []), stored]);
    return stored;
  }

  delete(key: string, ifGeneration: IfGeneration): void {
    if (this.current(key) === undefined) throw new GcsRefusal(404, 'notFound');
    this.check(key, ifGeneration);
    this.#objects.delete(key);
  }
}
