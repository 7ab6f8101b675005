// Which task and attempt a key in the store may belong to. Only the object's metadata prove it. Pure.
import { ENDINGS, parseMoment, parsePartial } from '../model/format/keys.ts';

export const KINDS = ['checkpoints', 'partials', 'older'] as const;
export type Kind = (typeof KINDS)[number];

export interface Shape {
  readonly kind: Kind | 'result';
  readonly index: string;
  /** Undefined if the key does not contain the attempt. */
  readonly attempt: number | undefined;
}

const PARTIAL = /\.([\w-]+)\.partial-(\d[^/]*)$/;
const OLDER = new RegExp(String.raw`\.([\w-]+)\.~[1-9]\d*~${ENDINGS}$`);
const RESULT = new RegExp(String.raw`\.([\w-]+?)${ENDINGS}$`);

/** Undefined if the key cannot be an object of a task. */
export function shapeOf(key: string, taskName: string): Shape | undefined {
  const mark = `.${taskName}.`;
  const at = key.lastIndexOf(mark);
  const [, index, moment = ''] =
    (at === -1 ? null : /^([\w-]+)\.(.*)$/.exec(key.slice(at + mark.length))) ?? [];
  const parsed = parseMoment(moment);
  if (index !== undefined && parsed !== undefined)
    return { kind: 'checkpoints', index, attempt: parsed.attempt };
  const [, ofPartial, rest = ''] = PARTIAL.exec(key) ?? [];
  const attempt = parsePartial(rest);
  if (ofPartial !== undefined && attempt !== undefined)
    return { kind: 'partials', index: ofPartial, attempt };
  const [, ofOlder] = OLDER.exec(key) ?? [];
  if (ofOlder !== undefined) return { kind: 'older', index: ofOlder, attempt: undefined };
  const [, ofResult] = RESULT.exec(key) ?? [];
  return ofResult === undefined ? undefined : { kind: 'result', index: ofResult, attempt: undefined };
}
