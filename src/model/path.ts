// File names are bytes; JavaScript strings are not. Inside capture a path is a string in which every byte that is not
// valid UTF-8 becomes one lone low surrogate (U+DC80..U+DCFF), like Python's "surrogateescape": nothing is lost, and
// ordinary names stay ordinary strings.

/** A path relative to the work directory, `/` between components, no leading `/`, `.` or `..`. */
export type RelPath = string;

/** The string for a name as the kernel gave it. Lossless: {@link encodePath} gives the same bytes back. */
export function decodePath(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('utf8');
  if (!text.includes('\uFFFD')) return text;
  return decodeWithEscapes(buffer);
}

function decodeWithEscapes(buffer: Buffer): string {
  let out = '';
  let at = 0;
  while (at < buffer.length) {
    const length = utf8SequenceLength(buffer, at);
    if (length === 0) {
      out += String.fromCharCode(0xdc00 + (buffer[at] ?? 0));
      at += 1;
    } else {
      out += buffer.toString('utf8', at, at + length);
      at += length;
    }
  }
  return out;
}

/** Bytes of the valid UTF-8 sequence that starts at `at`; 0 if there is none (RFC 3629, section 4). */
function utf8SequenceLength(buffer: Buffer, at: number): number {
  const first = buffer[at] ?? 0;
  if (first < 0x80) return 1;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > buffer.length) return 0;
  const piece = buffer.subarray(at, at + length);
  return Buffer.from(piece.toString('utf8'), 'utf8').equals(piece) ? length : 0;
}

/** What to pass to Node's fs and to libc: the string itself if it is plain, else the exact bytes. */
export function encodePath(path: string): string | Buffer {
  return hasEscape(path) ? pathBytes(path) : path;
}

/** The exact bytes of a path, without a terminating NUL. */
export function pathBytes(path: string): Buffer {
  if (!hasEscape(path)) return Buffer.from(path, 'utf8');
  const pieces: Buffer[] = [];
  for (const char of path) {
    const code = char.codePointAt(0) ?? 0;
    pieces.push(isEscape(code) ? Buffer.from([code - 0xdc00]) : Buffer.from(char, 'utf8'));
  }
  return Buffer.concat(pieces);
}

function isEscape(code: number): boolean {
  return code >= 0xdc80 && code <= 0xdcff;
}

/** A surrogate that belongs to a pair is a character; only a lone one is an escaped byte. */
function hasEscape(path: string): boolean {
  if (!/[\uDC80-\uDCFF]/.test(path)) return false;
  for (const char of path) if (isEscape(char.codePointAt(0) ?? 0)) return true;
  return false;
}

/** `a/b` and `c` → `a/b/c`; the work directory itself is ''. */
export function joinPath(dir: string, name: string): string {
  return dir === '' ? name : `${dir}/${name}`;
}

/** The directories above a path, innermost first: `a/b/c` → `a/b`, `a`, `` (the work directory itself). */
export function ancestorsOf(path: RelPath): readonly RelPath[] {
  if (path === '') return [];
  const above: RelPath[] = [];
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1))
    above.push(path.slice(0, at));
  above.push('');
  return above;
}

/** True for a path that stays below the work directory: relative, no empty, `.` or `..` component, no NUL. */
export function isInside(path: string): boolean {
  return (
    path !== '' &&
    !path.includes('\0') &&
    path.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
  );
}

/**
 * Characters that are not text on a terminal: controls (C0, DEL and C1; ECMA-48), those that end a line or change its
 * direction (Unicode, UAX 9), and bytes that are not UTF-8.
 */
const NO_TEXT = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\uDC80-\uDCFF]/gu;

/**
 * Makes foreign text (names, hosts, reasons) safe for a terminal and for messages. A character that could move the
 * cursor, hide or turn text, or forge a line becomes `\x1b` or `\u202e`. A second pass changes nothing.
 */
export function showPath(text: string): string {
  return text.replace(NO_TEXT, (char) => {
    const code = char.codePointAt(0) ?? 0;
    if (isEscape(code)) return `\\x${(code - 0xdc00).toString(16)}`;
    return code < 0x80 ? `\\x${hex(code, 2)}` : unicodeEscape(code);
  });
}

/** The same for text of several lines: line feeds and tabs stay. */
export function showLines(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(/[^\n\t]+/g, (part) => showPath(part));
}

/** A value as one line of JSON that is safe on a terminal. A JSON reader gets the same value. */
export function showJson(value: unknown): string {
  return safeJson(JSON.stringify(value));
}

/** The same for existing JSON. */
export function safeJson(json: string): string {
  return json.replace(NO_TEXT, (char) => (char === '\n' ? char : unicodeEscape(char.codePointAt(0) ?? 0)));
}

function unicodeEscape(code: number): string {
  return `\\u${hex(code, 4)}`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}
