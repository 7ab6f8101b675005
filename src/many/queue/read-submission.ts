// Validates a submission that was read from Redis, where any client may have written anything. Options, stores and
// parts of keys are accepted only if capture submit could have written them; otherwise the whole submission is
// rejected.
import { isMistake } from '../../model/errors.ts';
import { isTaskName } from '../../model/format/task-name.ts';
import { type Parsed, parseSubmission, type Submission } from '../../model/many/submission.ts';
import { isKindFlag } from '../../store/open.ts';
import { parseStoreUrl } from '../../store/url.ts';
import { OF_TASKS } from './options.ts';

export function readSubmission(data: unknown): Parsed<Submission> {
  const found = parseSubmission(data);
  if ('why' in found) return found;
  const { store, taskName, options } = found.value;
  const why =
    whyNoStore(store.url) ??
    lacking('store.flags', store.flags, isKindFlag) ??
    lacking('taskName', [taskName], isTaskName) ??
    lacking('options', options, isWordOfTask);
  return why === undefined ? found : { why };
}

/** The URL must be complete: no directory of ours completes it. */
function whyNoStore(url: string): string | undefined {
  const read = parseStoreUrl(url, 'store.url', '/');
  if (isMistake(read)) return read.message;
  return read === url ? undefined : `store.url: '${url}' is not the URL of a store in full`;
}

function lacking(
  field: string,
  words: readonly string[],
  isOne: (word: string) => boolean,
): string | undefined {
  const wrong = words.find((word) => !isOne(word));
  return wrong === undefined ? undefined : `${field}: '${wrong}' is not one that capture submit writes`;
}

const TAKES_VALUE: ReadonlyMap<string, boolean> = new Map(
  OF_TASKS.map(({ name, kind }) => [`--${name}`, kind !== 'flag']),
);

/**
 * In the form that capture submit writes, `--name` or `--name=value`, so that no word can become another option's
 * value.
 */
function isWordOfTask(word: string): boolean {
  const [, long = '', value] = /^(--[a-z-]+)(=.*)?$/s.exec(word) ?? [];
  return TAKES_VALUE.get(long) === (value !== undefined);
}
