// Who stored an object, and which file does it hold? capture's own objects say so in their metadata. A listing of
// inputs leaves them out, except the results of its own index. Pure.
import type { RelPath } from '../path.ts';
import { ENDINGS, pathOfOwnKey, TASKS_PREFIX } from './keys.ts';

/** An object that capture itself stored under this very key, with `--run` of the attempt that stored it. */
export type Origin = { readonly runId: string | undefined } & (
  | {
      /** The newest result of its index. */
      readonly kind: 'result';
      /** The file that it holds; undefined if the key is shortened: then only its record names the file. */
      readonly path: RelPath | undefined;
    }
  /** A checkpoint, a segment, a partial result, or an older object. */
  | { readonly kind: 'other' }
);

/** The form of randomUUID: other programs may write metadata of the same name. */
const PUSH_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Undefined if another program stored the object: it has no metadata of capture's, or it is a copy of one of capture's
 * objects under another name (a copy keeps the metadata).
 */
export function originOf(key: string, meta: Readonly<Record<string, string>>): Origin | undefined {
  const { push = '', index = '', 'run-id': runId } = meta;
  if (!PUSH_ID.test(push) || meta['capture'] === undefined || !/^[\w-]+$/.test(index)) return undefined;
  if (new RegExp(`\\.${index}(${NOT_A_RESULT})${ENDINGS}$`).test(key)) return { kind: 'other', runId };
  const [, escaped] = new RegExp(`^(.+)\\.${index}${ENDINGS}$`, 's').exec(key) ?? [];
  return escaped === undefined ? undefined : { kind: 'result', path: pathOfOwnKey(escaped), runId };
}

/** What follows the index in keys of model/format/keys that are not results. */
const NOT_A_RESULT = [
  String.raw`\.\d+-\d+(\.\d+)?`,
  String.raw`\.partial-\d+(\.~\d+~)?`,
  String.raw`\.~\d+~`,
].join('|');

/** True for a key in a `.capture/` directory of this prefix, or of one below it. */
export function isRecordKey(key: string): boolean {
  return key.startsWith(TASKS_PREFIX) || key.includes(`/${TASKS_PREFIX}`);
}
