// The contract between capture and the place where objects are stored. Everyone may import this file; only the
// composition (sidecar, cli) picks a driver. Every driver passes test/store/contract.ts.
import { CaptureError, type Mistake } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';

/**
 * Metadata of an object, as flat strings: S3 allows nothing else. Names are lower case; names and values are printable
 * ASCII without spaces at either end, 2 KiB in all.
 */
export type ObjectMeta = Readonly<Record<string, string>>;

/** The condition on the current object under a key for a write to take place. */
export type Precondition =
  /** No object exists: only create. */
  | { readonly kind: 'absent' }
  /** The object is in exactly this state. The tag comes from the last write or look. */
  | { readonly kind: 'is'; readonly tag: string }
  /** No condition. Only for keys that are written once: a late write may undo a newer one. */
  | { readonly kind: 'any' };

export const ABSENT: Precondition = { kind: 'absent' };

/** The precondition for replacing exactly the object that a look has found. */
export function exactly(found: Pick<ObjectHead, 'tag'> | undefined): Precondition {
  return found === undefined ? ABSENT : { kind: 'is', tag: found.tag };
}

export interface ObjectHead {
  readonly key: string;
  /** Identifies this state of the object, for {@link Precondition}. It has no other meaning. */
  readonly tag: string;
  /** Size as stored (compressed if the key says so). */
  readonly sizeBytes: number;
  readonly meta: ObjectMeta;
  /** When it was written, ms since the epoch by the store's clock. S3 gives whole seconds. */
  readonly modifiedMs: number | undefined;
  /** Permissions of the object itself, if the store has permissions. A copy must not give others more. */
  readonly permissions?: number | undefined;
}

export interface ListedObject {
  readonly key: string;
  readonly sizeBytes: number;
  /** As in {@link ObjectHead}; S3 may give whole seconds here, too. */
  readonly modifiedMs: number | undefined;
  /**
   * The md5 of the stored bytes, if the server may have reported it. An ETag can look like an md5 without being one
   * (SSE-KMS), so only a match proves something.
   */
  readonly md5?: string | undefined;
}

/** How long one operation is retried, ms. A shorter outage costs nothing but time. */
export const BUDGET_MS = 60_000;

/** The slowest accepted answer. No real link is slower: the headers alone would take ten seconds. */
export const SLOWEST_BYTES_PER_S = 100;

export interface PutOptions {
  readonly meta: ObjectMeta;
  /** Default `any`. If the condition does not hold, nothing changes, and the outcome says so. */
  readonly precondition?: Precondition;
  /** The md5 of a body that is given as bytes, if it is known. Otherwise the store computes it to check the answer. */
  readonly md5?: string | undefined;
  /** Called with the number of bytes that the store has just taken. Bytes that are sent twice are reported twice. */
  readonly onSent?: ((bytes: number) => void) | undefined;
  /** Called with each chunk that the store no longer needs. The store may keep some chunks. */
  readonly release?: (chunk: Uint8Array) => void;
  readonly signal?: AbortSignal;
}

/**
 * `stored`: the whole body is durable and visible under the key; `tag` identifies this state. `exists`: the put may
 * only create, and another object has the key. `replaced-meanwhile`: the object to be replaced is in another state, or
 * gone. If the answer to our own write is lost, the `push` id in `meta` tells whose object it is.
 */
export type PutOutcome =
  /** `sizeBytes`: of the object, if it is not that of the body: it was sealed. */
  | { readonly kind: 'stored'; readonly tag: string; readonly sizeBytes?: number }
  | { readonly kind: 'exists' }
  | { readonly kind: 'replaced-meanwhile' };

export interface PromoteOptions extends Pick<PutOptions, 'precondition' | 'signal'> {
  /** What the put of the source reported, if it is known. This saves a look. */
  readonly source?: PutObject | undefined;
}

/** An object as its writer knows it. */
export interface PutObject extends Pick<ObjectHead, 'tag' | 'sizeBytes'> {
  /** The push id in its metadata. */
  readonly push: string;
}

export interface GetOptions {
  /** First and last byte, both inclusive (RFC 9110, section 14.1.2). */
  readonly range?: { readonly first: number; readonly last: number };
  /**
   * Reads up to this many bytes of the body before it resolves. If the body breaks off there, the object is asked for
   * again, as after any other failure.
   */
  readonly aheadBytes?: number | undefined;
  readonly signal?: AbortSignal;
}

/**
 * A flat map from keys to immutable byte strings. Keys are relative to the store's own prefix, with `/` between
 * components, and already escaped (model/format/keys): a driver passes them on unchanged.
 *
 * All methods retry transient failures within the driver's own budget, and then throw a {@link StoreError}. An aborted
 * signal makes them reject with the signal's reason, also during a pause. No method logs. No method needs a right above
 * the prefix (no HeadBucket, no listing of the bucket).
 */
export interface Store {
  /** For messages: `s3://bucket/prefix` or `file:///dir`. Never contains a secret. */
  readonly url: string;
  /** True if a create-only put is known to be honoured, also against a concurrent writer. */
  readonly createsAtomically: boolean;
  /**
   * True if the server pages its listings. Several concurrent listings of parts are then faster than one long listing.
   * Otherwise each listing would read everything again.
   */
  readonly listsByPage: boolean;
  /** Only a store that opens what is sealed has it (seal/sealed-store.ts). */
  readonly sealed?: {
    /** Of keys that are looked for beside plain ones: there is what opens them. */
    readonly endings: readonly string[];
    /** There is a secret key of gpg. */
    opensGpg(signal: AbortSignal): Promise<boolean>;
    /**
     * What opens the stored bytes of the object under this key; undefined if they are not sealed. Throws status 69 if
     * there is no identity.
     */
    opening(key: string): ((stored: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>) | undefined;
  };

  /**
   * True if a condition on the replaced state is honoured, also against a concurrent writer. False if the store only
   * looks just before it writes. Asks the server if that is not known yet. A server that also refuses conditions that
   * hold is recognised only by a put.
   */
  replacesAtomically(signal?: AbortSignal): Promise<boolean>;
  /**
   * Makes an object visible under `key` atomically: no reader ever sees a part of it, and a failed or aborted put
   * leaves the earlier object unchanged. If the body throws, the put is aborted and the body's error is thrown
   * unchanged. Chunks of an iterable body are parts: each at least 5 MiB except the last, at most 10,000. The store
   * owns a chunk until it calls `release`; the chunk must not be changed before. A body is iterated once; it may stay
   * unread if the outcome is not `stored`. `meta.push` must be unique to this call: it tells whether a put whose answer
   * was lost took place. A put without it only asks, with `absent`, whether the key is taken.
   *
   * A request that we gave up may be delayed on its way, and arrive long after a newer one was answered. With `is`,
   * such a late put never undoes a later write of this store to the key; this holds for all its tries. If a put throws,
   * it may still take place until the next write of the key: that write either sees it, or prevents it for good.
   */
  put(key: string, body: Uint8Array | AsyncIterable<Uint8Array>, options: PutOptions): Promise<PutOutcome>;
  /**
   * The object's bytes, or undefined if it does not exist. A short or broken body throws while it is read. A range must
   * start inside the object (otherwise `refused`), and is cut at the object's end.
   */
  get(key: string, options?: GetOptions): Promise<GotObject | undefined>;
  head(key: string, signal?: AbortSignal): Promise<ObjectHead | undefined>;
  /** All objects whose keys start with `prefix`, in ascending byte order of their keys, paged as needed. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<ListedObject>;
  /**
   * Names of the first components below `prefix`, which ends with a slash, that have keys below them; ascending, at
   * most 1,000. Costs one request, whereas `list` costs one for each 1,000 keys.
   */
  folders(prefix: string, signal?: AbortSignal): Promise<readonly string[]>;
  /** Deletes objects. A key without an object is no error. */
  delete(keys: readonly string[], signal?: AbortSignal): Promise<void>;
  /**
   * Copies bytes and metadata inside the store. Throws `missing` if `from` does not exist. If the store can promise it,
   * a late copy never copies another state of `from` than the one that was found.
   */
  copy(from: string, to: string, signal?: AbortSignal): Promise<void>;
  /**
   * Renames the object `from` to `to` inside the store, with its metadata, and atomically like a put. After `stored`,
   * `from` no longer exists, if we may delete it; so a late promotion finds nothing. After the other outcomes `from` is
   * unchanged. `from` must be written once, by a put of its own, and nobody else may promote it. Throws `missing` if it
   * does not exist.
   */
  promote(from: string, to: string, options?: PromoteOptions): Promise<PutOutcome>;
  /**
   * Removes what interrupted puts left (parts, temporaries), for keys for which `mine` is true. Resolves to false if
   * the server or the credentials' rights do not let us look for them. `mine` is called about a put after that put was
   * listed. A store that removes them by itself has nothing to do.
   */
  sweep(prefix: string, mine: IsMine, signal?: AbortSignal): Promise<boolean>;
  /**
   * Throws `lost` if this machine can see that the store is no longer the one that was opened: its path leads to
   * another directory, or to none. Sends no request. Every other method makes the same check, and a put repeats it
   * before it returns `stored`. A loss that only the server knows shows in the caller's own claim (records/claim.ts).
   */
  confirm(signal?: AbortSignal): Promise<void>;
  /** The credentials in use; undefined for a store without credentials. Sends nothing to the store itself. */
  access(signal?: AbortSignal): Promise<Access | undefined>;
  close(): Promise<void>;
}

export type IsMine = (key: string) => boolean | Promise<boolean>;

export interface Access {
  /** When they expire, ms since the epoch; undefined: never, or unknown. */
  readonly expiresMs: number | undefined;
  /** They are temporary credentials of a session. */
  readonly isSession: boolean;
  /** They can be renewed from a file or a service. Credentials from variables cannot. */
  readonly isRenewable: boolean;
}

/** The purpose of a try: each may fail while the others work. `remove` includes the search for objects to remove. */
export type StoreUse = 'read' | 'write' | 'remove';

/** Called with the result of one try of an operation; undefined is a success. Must not throw. */
export type OnTry = (use: StoreUse, error: StoreError | undefined) => void;

export interface GotObject extends Omit<ObjectHead, 'sizeBytes'> {
  /** Undefined if the answer does not name it. Then only the end of the body shows it. */
  readonly sizeBytes: number | undefined;
  /**
   * Holds a connection or a file open until it was read to its end or left by `break`. If it is not read, `return()` of
   * its iterator must be called.
   */
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Why a store operation failed.
 * - `transient`: it was retried until the budget ran out.
 * - `busy`: the same, but for ten times as long, because the server answered that it is overloaded.
 * - `denied`: the credentials or their rights do not suffice.
 * - `expired`: the credentials have expired.
 * - `missing`: the bucket, or the source of a copy, does not exist.
 * - `full`: there is no room.
 * - `lost`: another store, or none, is in its place, without our objects. It may come back, as a file system that is
 *   mounted again.
 * - `impossible`: it can never hold an object under this key.
 * - `refused`: any other error that a retry cannot solve.
 */
export type StoreErrorKind =
  | 'transient'
  | 'busy'
  | 'denied'
  | 'expired'
  | 'missing'
  | 'full'
  | 'lost'
  | 'impossible'
  | 'refused';

export class StoreError extends CaptureError {
  /**
   * Compared by name, because each driver is a separate file of the program with its own copy of the class (build.mjs).
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'StoreError';
  }

  readonly kind: StoreErrorKind;

  constructor(kind: StoreErrorKind, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(EXIT.unavailable, message, options);
    this.name = 'StoreError';
    this.kind = kind;
  }
}

/** True if the error says that another store, or none, is in the place of ours. */
export function isLost(error: unknown): boolean {
  return error instanceof StoreError && error.kind === 'lost';
}

/**
 * What capture must know of a kind of store before it opens one: how its URLs look, and where they lead. Pure. Each
 * driver has this in a separate file (`url.ts`, in its folder), because the launcher must not load what the driver
 * needs.
 */
export interface StoreKind {
  /** The form of its URLs, for messages: `s3://bucket/prefix`. */
  readonly form: string;
  /** Returns the normalised URL that the rest of capture uses, or why it cannot be a store. */
  readonly parse: (given: GivenUrl) => string | Mistake;
  /** The absolute path of the store's directory on this machine; undefined if the store is elsewhere. */
  readonly directoryOf: (url: string) => string | undefined;
  /** Suggests what to use instead of a URL with this other scheme, if this kind can replace it. */
  readonly insteadOf?: (scheme: string) => string | undefined;
}

/** A command line option that only one kind of store has. */
export interface KindOption {
  /** `<class>`; undefined for a flag. */
  readonly argument?: string;
  readonly isRepeated?: true;
  /** It has no meaning for a command that only reads. */
  readonly isForWrites?: true;
  readonly help: string;
  /** What is wrong with a value, and a right one. Undefined if it is right. */
  readonly whyNot?: (text: string) => { readonly is: string; readonly example: string } | undefined;
}

/** A URL as the user wrote it. */
export interface GivenUrl {
  readonly text: string;
  /** Its origin: `--to`, or `CAPTURE_TO`. */
  readonly source: string;
  /** Origin and URL, for the start of a message. */
  readonly shown: string;
}
