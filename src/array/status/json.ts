// `capture status --json`: one object, each index on a line of its own, written as it comes.
import { showJson } from '../../model/path.ts';
import { readAhead } from '../../model/waiting.ts';
import type { Tools } from '../../cli/command.ts';
import { newestRecord, READS_AT_ONCE } from '../details.ts';
import type { IndexState } from '../state.ts';
import { storedOf, type View } from './view.ts';

/** Resolves to whether all records that it read are whole. */
export async function writeJson(view: View, { out, log, signal }: Tools): Promise<boolean> {
  let isWhole = true;
  const { array, counts, nowMs } = view;
  const head = { format: 1, store: array.store.url, task: array.taskName, now: isoOf(nowMs), counts };
  await out.write(`${showJson(head).slice(0, -1)},"indices":[`);
  const read = async (one: IndexState): Promise<string> => {
    const found =
      view.details && one.row !== undefined ? await newestRecord(array, one.row, signal) : undefined;
    for (const problem of found?.problems ?? []) log.warn(problem, { event: 'damaged', index: one.index });
    isWhole &&= (found?.problems ?? []).length === 0;
    return showJson({ ...jsonOf(one), ...(found === undefined ? {} : storedOf(found)) });
  };
  let isFirst = true;
  for await (const line of readAhead(view.states(), READS_AT_ONCE, read)) {
    await out.write(`${isFirst ? '' : ','}\n${line}`);
    isFirst = false;
  }
  await out.write('\n]}\n');
  return isWhole;
}

function jsonOf({ index, state, row }: IndexState): object {
  if (row === undefined) return { index, state };
  const { attempts, newest, claimedMs, seenMs, checkpointMs } = row;
  return {
    index,
    state,
    status: newest.status,
    attempts,
    attempt: newest.attempt,
    startedAt: isoOf(claimedMs),
    seenAt: isoOf(seenMs),
    checkpointAt: isoOf(checkpointMs),
    record: newest.key,
  };
}

function isoOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}
