// Whose object is it? capture's own objects say so in their metadata; a listing of inputs leaves them out. Pure.
import { TASKS_PREFIX } from './keys.ts';

/** An object that capture itself stored under this very key. */
export interface Origin {
  /** `result`: the newest one of its index. `other`: a checkpoint, a segment, a partial, an older object. */
  readonly kind: 'result' | 'other';
  /** `--run` of the attempt that stored it. */
  readonly runId: string | undefined;
}

/** randomUUID's form: other programs write metadata of the same name. */
const PUSH_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Undefined for what somebody else put there: nothing says that it is ours, or it was copied from one of our
 * objects to a name of its own (a copy keeps the metadata).
 */
export function originOf(key: string, meta: Readonly<Record<string, string>>): Origin | undefined {
  if (!PUSH_ID.test(meta['push'] ?? '') || meta['capture'] === undefined) return undefined;
  const runId = meta['run-id'];
  // What earlier versions stored carries no index.
  const index = /^[\w-]+$/.test(meta['index'] ?? '') ? meta['index'] : '\\d+';
  if (new RegExp(`\\.${index}(${NOT_A_RESULT})(\\.zst)?$`).test(key)) return { kind: 'other', runId };
  if (new RegExp(`\\.${index}(\\.zst)?$`).test(key)) return { kind: 'result', runId };
  return undefined;
}

/** What follows the index in the keys of model/format/keys that are no result's. */
const NOT_A_RESULT = [
  String.raw`\.\d+-\d+(\.\d+)?`,
  String.raw`\.partial-\d+(\.~\d+~)?`,
  String.raw`\.~\d+~`,
].join('|');

/** True for a key in a `.capture/` directory, of this prefix or of one below it. */
export function isRecordKey(key: string): boolean {
  return key.startsWith(TASKS_PREFIX) || key.includes(`/${TASKS_PREFIX}`);
}
