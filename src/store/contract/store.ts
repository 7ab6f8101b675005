// The contract between capture and the place where objects go. Everyone may import this file; only the
// composition (sidecar, cli) picks a driver. Every driver passes test/store/contract.ts.
import { CaptureError, type Mistake } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';

/**
 * What is stored with an object, as flat strings: S3 allows no more. Names are lower case; names and values
 * are printable ASCII without spaces at either end, 2 KiB in all.
 */
export type ObjectMeta = Readonly<Record<string, string>>;

/** What must stand under a key for a write to take place. */
export type Precondition =
  /** Nothing: only create. */
  | { readonly kind: 'absent' }
  /** Exactly the state with this tag, as the last write or look told it. */
  | { readonly kind: 'is'; readonly tag: string }
  /** Whatever stands there. Only for keys that are written once: a write that is late may undo a newer one. */
  | { readonly kind: 'any' };

export const ABSENT: Precondition = { kind: 'absent' };

/** The precondition of a write over what a look has found. */
export function exactly(found: Pick<ObjectHead, 'tag'> | undefined): Precondition {
  return found === undefined ? ABSENT : { kind: 'is', tag: found.tag };
}

export interface ObjectHead {
  readonly key: string;
  /** Names this state of the object, for {@link Precondition}; nothing else may be read out of it. */
  readonly tag: string;
  /** Bytes as stored (compressed when the key says so). */
  readonly sizeBytes: number;
  readonly meta: ObjectMeta;
  /** When it was put there, ms since the epoch by the store's clock; S3 gives whole seconds. */
  readonly modifiedMs: number | undefined;
  /** Permissions of the object itself, if the store has such and nothing is recorded: somebody has put it there. */
  readonly permissions?: number | undefined;
}

export interface ListedObject {
  readonly key: string;
  readonly sizeBytes: number;
  /** As in {@link ObjectHead}; S3 may give whole seconds here, too. */
  readonly modifiedMs: number | undefined;
  /**
   * Of the bytes as stored, if the server may have told it: an ETag can look like an md5 and be none (SSE-KMS). Only one
   * that is right says anything.
   */
  readonly md5?: string | undefined;
}

/** An outage of this length costs nothing but time: one operation is tried again for so long, ms. */
export const BUDGET_MS = 60_000;

/** Of an answer. No real link is slower: the headers alone would take ten seconds. */
export const SLOWEST_BYTES_PER_S = 100;

export interface PutOptions {
  readonly meta: ObjectMeta;
  /** Default `any`. If it does not hold, nothing changes, and the outcome says so. */
  readonly precondition?: Precondition;
  /** Of a body that is given as bytes, if it is known: else the store computes it to check the answer. */
  readonly md5?: string | undefined;
  /** Told as the store takes bytes: so many more than before. What is sent twice is told twice. */
  readonly onSent?: ((bytes: number) => void) | undefined;
  /** Called with each chunk that the store no longer needs; it may keep some. */
  readonly release?: (chunk: Uint8Array) => void;
  readonly signal?: AbortSignal;
}

/**
 * `stored`: the whole body is durable and visible under the key; `tag` names this state. `exists`: only to create was
 * asked for, and the key was taken by something else. `replaced-meanwhile`: another state than the one to be replaced
 * stands there, or none. When the answer to our own write is lost, the `push` id in `meta` tells whose object it is.
 */
export type PutOutcome =
  | { readonly kind: 'stored'; readonly tag: string }
  | { readonly kind: 'exists' }
  | { readonly kind: 'replaced-meanwhile' };

export interface PromoteOptions extends Pick<PutOptions, 'precondition' | 'signal'> {
  /** What its put has told of the object, if that is known: it need not be looked at again. */
  readonly source?: PutObject | undefined;
}

/** An object as the one who has put it knows it. */
export interface PutObject extends Pick<ObjectHead, 'tag' | 'sizeBytes'> {
  /** The id in its metadata. */
  readonly push: string;
}

export interface GetOptions {
  /** First and last byte, both inclusive (RFC 9110, section 14.1.2). */
  readonly range?: { readonly first: number; readonly last: number };
  readonly signal?: AbortSignal;
}

/**
 * A flat map from keys to immutable byte strings. Keys are relative to the store's own prefix, `/` between
 * components, already escaped (model/format/keys): a driver passes them on as they are.
 *
 * All methods retry what is transient within the driver's own budget and then throw a {@link StoreError}.
 * An aborted signal makes them reject with the signal's reason, also in the middle of a pause.
 * None logs. None ever needs a right above the prefix (no HeadBucket, no listing of the bucket).
 */
export interface Store {
  /** For messages: `s3://bucket/prefix` or `file:///dir`. Never carries a secret. */
  readonly url: string;
  /** True when a create-only put is known to be honoured, also against a concurrent writer. */
  readonly createsAtomically: boolean;
  /**
   * True if a server gives a listing page by page, each after the one before: several listings of parts of a long one
   * are then faster. Otherwise each of them would look at everything anew.
   */
  readonly listsByPage: boolean;

  /**
   * True if a condition on the state that is replaced is honoured, also against a concurrent writer; false if the store
   * only looks just before it writes. Asks the server, if nobody knows it yet. A server that refuses also what holds is
   * known only by a put.
   */
  replacesAtomically(signal?: AbortSignal): Promise<boolean>;
  /**
   * Makes an object visible under `key`, whole or not at all: no reader ever sees a part of it, a failed or aborted put
   * leaves the earlier object as it was. A body that throws aborts the put and its error comes out unchanged. Chunks of
   * an iterable body are parts: each at least 5 MiB but the last, at most 10,000. The store keeps a chunk that was
   * given until it says otherwise (`release`): before, it must not be written to. A body is iterated once; it may be
   * left unread when the outcome is not `stored`. `meta.push` must be unique to this call: it tells whether a put whose
   * answer was lost took place. A put without it only asks, with `absent`, whether the key is taken.
   *
   * A request may be cut for us and arrive when a newer one has long been answered. With `is` a put that is late never
   * undoes what this store wrote to the key after it: neither its last try nor one before. If it throws, the put may
   * still take place, until the next write of the key: that one sees it, or shuts it out for good.
   */
  put(key: string, body: Uint8Array | AsyncIterable<Uint8Array>, options: PutOptions): Promise<PutOutcome>;
  /**
   * The object's bytes, or undefined when there is none. A short or broken body throws while it is read. A
   * range must begin inside the object (else `refused`) and ends with it at the latest.
   */
  get(key: string, options?: GetOptions): Promise<GotObject | undefined>;
  head(key: string, signal?: AbortSignal): Promise<ObjectHead | undefined>;
  /** All objects whose key starts with `prefix`, in ascending byte order of their keys, paged as needed. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<ListedObject>;
  /**
   * Names of the first components below `prefix`, which ends with a slash, that have keys below them; ascending, 1,000
   * at most. One request, where `list` would take one for each 1,000 keys.
   */
  folders(prefix: string, signal?: AbortSignal): Promise<readonly string[]>;
  /** Deletes what is there; a key that is not there is no error. */
  delete(keys: readonly string[], signal?: AbortSignal): Promise<void>;
  /**
   * Copies bytes and metadata inside the store; throws `missing` when `from` is not there. One that is late never copies
   * another state of `from` than the one that it found, where the store can promise that.
   */
  copy(from: string, to: string, signal?: AbortSignal): Promise<void>;
  /**
   * Gives the object `from` the name `to`, with its metadata and inside the store. Whole or not at all, as a put. After
   * `stored` there is no `from` any more, if it may be deleted: so a promotion that is late finds nothing. After the
   * other outcomes `from` is as it was. `from` must be written once, by a put of its own, and promoted by nobody else.
   * Throws `missing` when it is not there.
   */
  promote(from: string, to: string, options?: PromoteOptions): Promise<PutOutcome>;
  /**
   * Removes what interrupted puts of keys for which `mine` is true have left behind (parts, temporaries). False where the
   * server, or what the credentials may do, does not let us look for it. `mine` is asked about a put that was seen
   * before.
   */
  sweep(prefix: string, mine: IsMine, signal?: AbortSignal): Promise<boolean>;
  /**
   * Throws `lost` when this machine can see that the store is no longer the one that was opened: its path leads to
   * another directory, or to none. Sends no request. Every other method checks the same, and a put checks again before
   * it says `stored`. What only the server knows, the caller's own claim tells (records/claim.ts).
   */
  confirm(): Promise<void>;
  /** With what credentials it is used; undefined for a store that asks for none. Sends nothing to the store itself. */
  access(): Promise<Access | undefined>;
  close(): Promise<void>;
}

export type IsMine = (key: string) => boolean | Promise<boolean>;

export interface Access {
  /** When they run out, ms since the epoch; undefined: never, or nobody says. */
  readonly expiresMs: number | undefined;
  /** They are of a session, which ends. */
  readonly isSession: boolean;
  /** They may be read anew, from a file or a service; those of variables are what they are. */
  readonly isRenewable: boolean;
}

/** What a try was for: each may fail while the others work. `remove` includes the search for what is to be removed. */
export type StoreUse = 'read' | 'write' | 'remove';

/** Told how one try of an operation went; undefined is a success. Must not throw. */
export type OnTry = (use: StoreUse, error: StoreError | undefined) => void;

export interface GotObject extends ObjectHead {
  /**
   * Holds a connection or a file open until it has been read to its end, was left by `break`, or, unread, had
   * `return()` called on its iterator.
   */
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Why a store operation failed. `transient`: it was retried until the budget ran out. `busy`: the same, for ten times as
 * long, as the server answered that it has too much to do. `denied`: the credentials or
 * their rights do not suffice. `expired`: the credentials ran out. `missing`: there is no such bucket, or no source of
 * a copy. `full`: there is no room. `lost`: another store, or none, stands in its place, and what was stored is not in
 * it; it may come back, as a file system that is mounted again. `impossible`: it can never hold an object under this key.
 * `refused`: anything else that a retry cannot mend.
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
  /** By its name: drivers are files of their own in the program, with a class of their own (build.mjs). */
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

/** True for an error that says that another store, or none, stands in the place of ours. */
export function isLost(error: unknown): boolean {
  return error instanceof StoreError && error.kind === 'lost';
}

/**
 * What capture must know of a kind of store before one is opened: how its URL is written, and where it stands. Pure.
 * Each driver has it in a file of its own (`url.ts`, in its room): the launcher must not load what the driver needs.
 */
export interface StoreKind {
  /** How its URL is written, for messages: `s3://bucket/prefix`. */
  readonly form: string;
  /** The one form of a URL of this kind that the rest of capture works with, or why it cannot be a store. */
  readonly parse: (given: GivenUrl) => string | Mistake;
  /** The directory of this machine where the store with this URL stands, absolute; undefined when it is elsewhere. */
  readonly directoryOf: (url: string) => string | undefined;
  /** What to give instead of a URL of this other scheme, where this kind can do that. */
  readonly insteadOf?: (scheme: string) => string | undefined;
}

/** A URL as the user has written it. */
export interface GivenUrl {
  readonly text: string;
  /** What it came from: `--to`, or `CAPTURE_TO`. */
  readonly source: string;
  /** Both, for the beginning of a message. */
  readonly shown: string;
}
