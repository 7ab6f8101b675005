// `capture verify <url>`: is every object that a record names there and whole? It lists the damaged objects, and the
// checkpoint that a restart of the index would still use.
import pLimit from 'p-limit';
import type { Tools } from '../../cli/command.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { VerifiedIndex } from '../../model/format/json-output.ts';
import { showJson, showPath } from '../../model/path.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { readAhead } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { ARRAY_OPTION } from '../options.ts';
import { numberText } from '../columns.ts';
import { onArray } from '../command.ts';
import { nothingThere, type StoredArray } from '../stored-array.ts';
import { type IndexState, STALE_AFTER_MS, storedStates } from '../state.ts';
import { survey } from '../survey.ts';
import { type Check, fastCheck, wholeCheck } from './check.ts';
import { verifyIndex } from './index-objects.ts';

export const VERIFY_OPTIONS = group('Verify:', {
  set: { ...ARRAY_OPTION, help: 'only these indices' },
  fast: {
    flags: '--fast',
    help: 'compare sizes, and md5 where a listing has it, instead of reading all bytes',
  },
  json: { flags: '--json', help: 'JSON, one index a line' },
});

export const verifyCommand = onArray({
  name: 'verify',
  opens: true,
  help: {
    about:
      'Checks that every object that a record names is there, whole, with the md5 of its record. Names what is ' +
      'damaged, what was never stored, and the checkpoint that a restart would take. It reads everything, and ' +
      'changes nothing.',
    statuses: { 0: 'all is whole', 1: 'something is missing or damaged, or was never stored' },
    examples: ['capture verify s3://lab/run7', 'capture verify s3://lab/run7 --array 0-99 --fast'],
  },
  options: VERIFY_OPTIONS,
  read: (options) => options,
  act: verify,
});

const DAMAGED: ExitStatus = 1;
const INDICES_AT_ONCE = 8;
/** Each takes the memory of one or two chunks. */
const OBJECTS_AT_ONCE = 16;

async function verify(
  array: StoredArray,
  { set, fast, json }: ValuesOf<typeof VERIFY_OPTIONS>,
  tools: Tools,
): Promise<ExitStatus> {
  const { out, log, signal } = tools;
  const found = await survey(array, clockMs(), signal);
  if (found.rows.length === 0) throw nothingThere(array.store, array.taskName);
  const states = storedStates(found, STALE_AFTER_MS, set);
  const check = await checkOf(array, { fast, isWhole: set === undefined }, signal);
  const limit = pLimit(OBJECTS_AT_ONCE);
  const limited: Check = (file) => limit(() => check(file));
  const totals = { objects: 0, bytes: 0, damaged: 0, left: 0 };
  const read = (one: IndexState): Promise<VerifiedIndex> => verifyIndex(array, one, limited, signal);
  for await (const verified of readAhead(states, INDICES_AT_ONCE, read)) {
    const { index, problems, ...told } = verified;
    for (const problem of problems) log.warn(problem, { event: 'damaged', index });
    totals.objects += told.objects;
    totals.bytes += told.bytes;
    totals.damaged += told.damaged.length + problems.length;
    totals.left += told.left.length;
    if (json) await out.line(showJson({ format: 1, ...verified }));
    else for (const line of linesOf(verified)) await out.line(line, 'red');
  }
  if (!json) {
    const what = `${numberText(states.length)} ${states.length === 1 ? 'index' : 'indices'}, ${plural(totals.objects, 'object')}, ${formatBytes(totals.bytes)}`;
    await out.write(`${what}: ${howText(totals)}\n`);
  }
  return totals.damaged + totals.left === 0 ? EXIT.ok : DAMAGED;
}

function howText({ damaged, left }: { readonly damaged: number; readonly left: number }): string {
  const how = damaged === 0 ? 'all whole' : `${numberText(damaged)} damaged or missing`;
  return left === 0 ? how : `${how}; ${plural(left, 'file')} never stored`;
}

/** One listing shows all objects of the store. For a few indices, each object is requested on its own. */
function checkOf(
  { store }: StoredArray,
  { fast, isWhole }: { readonly fast: boolean; readonly isWhole: boolean },
  signal: AbortSignal,
): Promise<Check> | Check {
  return fast ? fastCheck(store, isWhole, signal) : wholeCheck(store, signal);
}

function linesOf({ index, damaged, left, checkpoints, restart, state }: VerifiedIndex): readonly string[] {
  const lines = [
    ...damaged.map(
      ({ generation, path, why }) =>
        `index ${index}: ${generation === undefined ? '' : `checkpoint ${generation}: `}${showPath(path)}: ${why}`,
    ),
    ...left.map(({ path, why }) => `index ${index}: ${showPath(path)} is not stored: ${why}`),
  ];
  if (!damaged.some(({ generation }) => generation !== undefined) || state === 'done') return lines;
  const next =
    restart === undefined
      ? `none of ${plural(checkpoints, 'checkpoint')} is whole: a restart ends with 69, --no-restore starts from nothing`
      : `a restart takes checkpoint ${restart}`;
  return [...lines, `index ${index}: ${next}`];
}
