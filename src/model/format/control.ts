// The messages on the control socket: one JSON object a line, one request and one answer for each connection. Pure.
// Both sides validate each line here and trust nothing they receive.
import type { LeftFile } from './records.ts';

/** Longest path of a unix socket: sun_path has 108 bytes, and the last one is a NUL (unix(7)). */
export const LONGEST_SOCKET_PATH_BYTES = 107;

/** The longest line, without its line feed. */
export const LONGEST_LINE_BYTES = 64 * 1024;

/** In characters. */
const LONGEST_REASON = 400;

export type ControlRequest =
  /** Is a sidecar watching? Answered with `watching`. */
  | { readonly kind: 'ping' }
  /**
   * Make everything durable that was closed before this request. Answered with `flushed`, after `timeoutMs` at the
   * latest.
   */
  | { readonly kind: 'flush'; readonly timeoutMs: number };

/** What a flush achieved. */
export interface Flushed {
  /** Files that were closed before the flush, and are not both durable and recorded. */
  readonly left: readonly LeftFile[];
  /** How many more of them there are. */
  readonly more: number;
  /** Why the newest checkpoint files are not a committed set yet; undefined if they are. */
  readonly incomplete: string | undefined;
  /** Declared files that the task holds open; each is stored once the task closes it. */
  readonly open: readonly OpenFile[];
}

export interface OpenFile {
  readonly path: string;
  readonly checkpoint: boolean;
}

export type ControlAnswer =
  | { readonly kind: 'watching' }
  | ({ readonly kind: 'flushed' } & Flushed)
  | { readonly kind: 'refused'; readonly why: string };

/** A message as a line, with its line feed. */
export function controlLine(message: ControlRequest | ControlAnswer): string {
  return `${JSON.stringify(message)}\n`;
}

/** The answer, short enough for one line: files that do not fit are only counted. Open checkpoints come first. */
export function flushedAnswer(end: Omit<Flushed, 'more'>): ControlAnswer {
  const left = fitting(
    end.left.map(({ path, why }) => ({ path, why: why.slice(0, LONGEST_REASON) })),
    LONGEST_LINE_BYTES / 2,
  );
  const byWorth = end.open.toSorted((a, b) => Number(b.checkpoint) - Number(a.checkpoint));
  return {
    kind: 'flushed',
    left,
    more: end.left.length - left.length,
    incomplete: end.incomplete,
    open: fitting(byWorth, LONGEST_LINE_BYTES / 4),
  };
}

function fitting<T>(files: readonly T[], roomBytes: number): readonly T[] {
  let taken = 0;
  return files.filter((file) => {
    taken += Buffer.byteLength(JSON.stringify(file));
    return taken <= roomBytes;
  });
}

/** Undefined if the line is not a request. */
export function parseRequest(line: string): ControlRequest | undefined {
  const message = parseObject(line);
  if (message === undefined) return undefined;
  if (message['kind'] === 'ping') return { kind: 'ping' };
  const { kind, timeoutMs } = message;
  if (kind !== 'flush' || typeof timeoutMs !== 'number' || !(timeoutMs >= 0 && timeoutMs < 2 ** 31))
    return undefined;
  return { kind, timeoutMs };
}

/** Undefined if the line is not an answer. */
export function parseAnswer(line: string): ControlAnswer | undefined {
  const message = parseObject(line);
  if (message === undefined) return undefined;
  const { kind, why, left, more, incomplete, open = [] } = message;
  if (kind === 'watching') return { kind };
  if (kind === 'refused' && typeof why === 'string') return { kind, why };
  if (kind !== 'flushed' || !Array.isArray(left) || !left.every(isLeftFile) || typeof more !== 'number')
    return undefined;
  if (!Array.isArray(open) || !open.every(isOpenFile)) return undefined;
  return { kind, left, more, incomplete: typeof incomplete === 'string' ? incomplete : undefined, open };
}

function isLeftFile(value: unknown): value is LeftFile {
  return isNamed(value) && 'why' in value && typeof value.why === 'string';
}

function isOpenFile(value: unknown): value is OpenFile {
  return isNamed(value) && 'checkpoint' in value && typeof value.checkpoint === 'boolean';
}

function isNamed(value: unknown): value is { readonly path: string } {
  return typeof value === 'object' && value !== null && 'path' in value && typeof value.path === 'string';
}

function parseObject(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === 'object' && message !== null
      ? (message as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    return undefined;
  }
}
