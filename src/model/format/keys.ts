// Object keys: the names that other programs rely on (docs/object-layout.md). Pure: the same file always gets the same
// key, and no two declared files of one index share one.
import { md5Of } from '../md5.ts';
import { decodePath, pathBytes, type RelPath } from '../path.ts';

/** S3 allows 1,024 bytes; the rest is for the user's prefix. */
const KEY_LIMIT_BYTES = 900;
/** Longest path in a key. The rest is for the longest suffix, so that all keys of a path begin alike. */
const PATH_LIMIT_BYTES = 720;
/** File systems allow 255 bytes for a component; the rest is for suffixes. */
const COMPONENT_LIMIT_BYTES = 200;
/** Bytes of a shortened component that stay readable. */
const SHORT_HEAD_BYTES = 120;

const COMPRESSED = '.zst';
/** The last ending of the key of a sealed object: `.age` in the age format, `.gpg` one OpenPGP message. */
export type SealedEnding = '.age' | '.gpg';
/** For patterns: what may follow the name of an object. */
export const ENDINGS = String.raw`(?:\.zst)?(?:\.age|\.gpg)?`;

/** The largest number of an attempt, a record, a set or an older object: the parsers of keys accept nine digits. */
export const MOST_NUMBER = 999_999_999;

/** Identifies the keys of one task of an array. */
export interface KeyScope {
  readonly taskName: string;
  /** `0` if the task is not in an array. */
  readonly index: string;
  /** The last ending of the keys of new objects; undefined: they are not sealed. */
  readonly sealed?: SealedEnding | undefined;
}

export function sealedEnding(key: string): SealedEnding | undefined {
  return (['.age', '.gpg'] as const).find((ending) => key.endsWith(ending));
}

/** The key without the ending of a sealed object. */
export function bareKey(key: string): string {
  return key.slice(0, key.length - (sealedEnding(key)?.length ?? 0));
}

/** Says the key that its object is compressed? */
export function isCompressedKey(key: string): boolean {
  return bareKey(key).endsWith(COMPRESSED);
}

/** `<path>.<index>[.zst]` */
export function resultKey(path: RelPath, scope: KeyScope, compressed: boolean): string {
  return withSuffix(path, `.${scope.index}`, compressed, scope);
}

/**
 * `<path>.<index>.partial-<attempt>[.zst]`: a partial result. If `n` is above 0, `.~<n>~` follows the attempt, because
 * the same attempt has staged another state, or another task has left an object of the same name.
 */
export function partialKey(
  path: RelPath,
  scope: KeyScope,
  at: { readonly attempt: number; readonly n: number },
  compressed: boolean,
): string {
  const again = at.n === 0 ? '' : `.~${at.n}~`;
  return withSuffix(path, `.${scope.index}.partial-${at.attempt}${again}`, compressed, scope);
}

/** The prefix of the keys of all partial results of a path. */
export function partialPrefix(path: RelPath, scope: KeyScope): string {
  return `${stemOf(path)}.${scope.index}.partial-`;
}

const PARTIAL = new RegExp(String.raw`^([1-9]\d*)(?:\.~\d+~)?${ENDINGS}$`);

/** The attempt in the part of a key after {@link partialPrefix}; undefined if it is not a partial result. */
export function parsePartial(rest: string): number | undefined {
  const match = PARTIAL.exec(rest);
  return match === null ? undefined : Number(match[1]);
}

/** The path and attempt of a partial result of this index; undefined for every other key. */
export function partialOfKey(
  key: string,
  { index }: KeyScope,
): { readonly path: RelPath; readonly attempt: number } | undefined {
  const mark = `.${index}.partial-`;
  const cut = key.lastIndexOf(mark);
  const attempt = cut === -1 ? undefined : parsePartial(key.slice(cut + mark.length));
  return attempt === undefined ? undefined : { path: pathOfKey(key.slice(0, cut)), attempt };
}

/** The path of a result of this index; undefined for every other key. */
export function pathOfResult(key: string, { index }: KeyScope): RelPath | undefined {
  const mark = `.${index}`;
  const [plain] = bareKey(key).split(/\.zst$/);
  return plain?.endsWith(mark) === true ? pathOfKey(plain.slice(0, -mark.length)) : undefined;
}

/** `<path>.<index>.~<n>~[.zst]`: an older object of a result that was stored again. */
export function keptKey(path: RelPath, scope: KeyScope, n: number, compressed: boolean): string {
  return withSuffix(path, `.${scope.index}.~${n}~`, compressed, scope);
}

/** The prefix of the keys of all older objects of a result. */
export function keptPrefix(path: RelPath, scope: KeyScope): string {
  return `${stemOf(path)}.${scope.index}.~`;
}

const KEPT = new RegExp(String.raw`^([1-9]\d{0,8})~${ENDINGS}$`);

/** The number in the part of a key after {@link keptPrefix}; undefined if it is not an older object. */
export function parseKept(rest: string): number | undefined {
  const match = KEPT.exec(rest);
  return match === null ? undefined : Number(match[1]);
}

/** `<path>.<task name>.<index>.<attempt>-<generation>[.zst]` */
export function checkpointKey(
  path: RelPath,
  scope: KeyScope,
  at: { readonly attempt: number; readonly generation: number },
  compressed: boolean,
): string {
  return withSuffix(
    path,
    `.${scope.taskName}.${scope.index}.${at.attempt}-${at.generation}`,
    compressed,
    scope,
  );
}

/** `<path>.<task name>.<index>.<attempt>-<generation>.<segment>[.zst]`: a segment of a companion. */
export function segmentKey(
  path: RelPath,
  scope: KeyScope,
  at: { readonly attempt: number; readonly generation: number; readonly segment: number },
  compressed: boolean,
): string {
  const moment = `${at.attempt}-${at.generation}.${at.segment}`;
  return withSuffix(path, `.${scope.taskName}.${scope.index}.${moment}`, compressed, scope);
}

/** The prefix of the keys of all checkpoint objects and segments of a path, of all attempts. */
export function momentPrefix(path: RelPath, scope: KeyScope): string {
  return `${stemOf(path)}.${scope.taskName}.${scope.index}.`;
}

const MOMENT = new RegExp(String.raw`^([1-9]\d*)-\d+(\.\d+)?${ENDINGS}$`);
const SEGMENT = new RegExp(String.raw`\.(\d+)-\d+\.(\d+)${ENDINGS}$`);

/** The part of a key after {@link momentPrefix}; undefined if it is neither a checkpoint nor a segment. */
export function parseMoment(rest: string): { attempt: number; isSegment: boolean } | undefined {
  const match = MOMENT.exec(rest);
  return match === null ? undefined : { attempt: Number(match[1]), isSegment: match[2] !== undefined };
}

/** The attempt and number of the segment with this key; undefined if it is not a segment's key. */
export function parseSegmentKey(key: string): { attempt: number; segment: number } | undefined {
  const match = SEGMENT.exec(key);
  return match === null ? undefined : { attempt: Number(match[1]), segment: Number(match[2]) };
}

/**
 * The keys to try for an input, in this order: the index's own first. An object that a user uploads by hand (`aws s3
 * cp`) has its plain file name as its key, without escapes. `endings`: '', and those of sealed objects that can be opened.
 */
export function inputKeys(
  path: RelPath,
  scope: KeyScope,
  endings: readonly string[] = [''],
): readonly { key: string; compressed: boolean }[] {
  const plain = isPlainKey(path) && stemOf(path) !== path ? [path] : [];
  const own = [resultKey(path, scope, false), ...plain.map((name) => `${name}.${scope.index}`)];
  return [
    ...own.flatMap((key) =>
      endings.flatMap((ending) => [
        { key: `${key}${ending}`, compressed: false },
        { key: `${key}${COMPRESSED}${ending}`, compressed: true },
      ]),
    ),
    ...[...plain, stemOf(path)].flatMap((key) =>
      endings.map((ending) => ({ key: `${key}${ending}`, compressed: false })),
    ),
  ];
}

/** The key of an input for all indices: its plain name, if a store accepts that. */
export function inputKey(path: RelPath): string {
  return isPlainKey(path) ? path : stemOf(path);
}

/** True if a store accepts the name of this file, or a prefix of it, as a key. */
export function isPlainKey(path: RelPath): boolean {
  // A byte that is not UTF-8 is a lone surrogate (model/path).
  return !/\p{Surrogate}/u.test(path) && Buffer.byteLength(path) <= KEY_LIMIT_BYTES;
}

/**
 * A file whose name says that it is compressed is stored unchanged: `.zst` at the end of a key is always capture's
 * own.
 */
export function mayCompress(path: RelPath): boolean {
  return !path.endsWith(COMPRESSED);
}

/** Each task has a folder below this prefix. */
export const TASKS_PREFIX = '.capture/';

/** `.capture/<task name>/`: the prefix of the records of all indices. */
export function taskPrefix(taskName: string): string {
  return `${TASKS_PREFIX}${escapePath(taskName)}/`;
}

/** `.capture/<task name>/<index>/`: the prefix of one index's records. */
export function recordPrefix(scope: KeyScope): string {
  return `${taskPrefix(scope.taskName)}${scope.index}/`;
}

/** `<attempt>-<seq>.<kind>.json`, zero-padded so that key order is time order. `failed` carries its status. */
export function recordKey(scope: KeyScope, attempt: number, seq: number, kind: string): string {
  return `${recordPrefix(scope)}${pad(attempt, 4)}-${pad(seq, 6)}.${kind}.json`;
}

/** The parts of a record's key; undefined for any other key. */
export function parseRecordKey(
  key: string,
): { attempt: number; seq: number; kind: string; status: number | undefined } | undefined {
  const match = /\/(\d{4,9})-(\d{6,9})\.([a-z]+)(?:-(\d+))?\.json$/.exec(key);
  if (match === null) return undefined;
  const [, attempt, seq, kind, status] = match;
  return {
    attempt: Number(attempt),
    seq: Number(seq),
    kind: kind ?? '',
    status: status === undefined ? undefined : Number(status),
  };
}

function pad(value: number, width: number): string {
  return String(value).padStart(width, '0');
}

function withSuffix(
  path: RelPath,
  suffix: string,
  compressed: boolean,
  { sealed = '' }: { readonly sealed?: string | undefined },
): string {
  return `${stemOf(path)}${suffix}${compressed ? COMPRESSED : ''}${sealed}`;
}

/** The common prefix of all keys of a path. */
function stemOf(path: RelPath): string {
  const escaped = escapePath(path);
  if (Buffer.byteLength(escaped) > PATH_LIMIT_BYTES) return shorten(escaped.replaceAll('/', '%2F'), path);
  // A file named like a checkpoint object: with an index appended, its key would be a segment's.
  return escaped.replace(/(\.[\w-]+)\.(\d+-\d+)$/, '$1%2E$2');
}

/**
 * `%`, control bytes, bytes that are not UTF-8, and the dot of a final `.zst` become `%XX`. A component over 200 bytes
 * keeps its first 120 and the md5 of the whole path.
 */
export function escapePath(path: RelPath): string {
  return path
    .split('/')
    .map((part, at, parts) => {
      const escaped = at === parts.length - 1 ? escapeEnding(escapeBytes(part)) : escapeBytes(part);
      return Buffer.byteLength(escaped) > COMPONENT_LIMIT_BYTES ? shorten(escaped, path) : escaped;
    })
    .join('/');
}

/** The path of a key. A key that capture would not write is taken as a plain file name. */
export function pathOfKey(key: string): RelPath {
  return pathOfOwnKey(key) ?? key;
}

/**
 * The path whose keys have this prefix; undefined if it was shortened, which cannot be undone, or if capture never
 * writes such a key.
 */
export function pathOfOwnKey(escaped: string): RelPath | undefined {
  const path = unescapeKey(escaped);
  return stemOf(path) === escaped ? path : undefined;
}

/** The path in a key's path part. Shortening cannot be undone: a shortened path is returned as it is. */
export function unescapeKey(escaped: string): RelPath {
  if (!escaped.includes('%') || escaped.includes('%~')) return escaped;
  const bytes: Buffer[] = [];
  let at = 0;
  for (const match of escaped.matchAll(/%([0-9A-F]{2})/g)) {
    bytes.push(
      Buffer.from(escaped.slice(at, match.index)),
      Buffer.from([Number.parseInt(match[1] ?? '', 16)]),
    );
    at = match.index + match[0].length;
  }
  bytes.push(Buffer.from(escaped.slice(at)));
  return decodePath(Buffer.concat(bytes));
}

function escapeBytes(part: string): string {
  let out = '';
  for (const char of part) {
    const code = char.codePointAt(0) ?? 0;
    if (code >= 0xdc80 && code <= 0xdcff) out += percent(code - 0xdc00);
    else if (code < 0x20 || code === 0x7f || char === '%') out += percent(code);
    else out += char;
  }
  return out;
}

function percent(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
}

function escapeEnding(part: string): string {
  return part.endsWith(COMPRESSED) ? `${part.slice(0, -COMPRESSED.length)}%2Ezst` : part;
}

function shorten(escaped: string, path: RelPath): string {
  let head = '';
  // Never split a character or a %XX.
  for (const piece of escaped.match(/%[0-9A-F]{2}|./gsu) ?? []) {
    if (Buffer.byteLength(head + piece) > SHORT_HEAD_BYTES) break;
    head += piece;
  }
  return `${head}%~${md5Of(pathBytes(path))}`;
}
