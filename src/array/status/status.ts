// `capture status <url>`: the state of each index of an array. All of it comes from listings; only for the rows of a
// table that a person reads is a record read as well.
import { durationMs, type Reader } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { type IndexSet, parseIndexSet } from '../../model/index-set.ts';
import { clockMs } from '../../native/clock.ts';
import { type ArrayCommand, type CarryOut, type Line, refuseOperands, type Tools } from '../command.ts';
import { nothingThere, openPlace, type Place, readPlace } from '../place.ts';
import { countsOf, type IndexState, othersThan, STALE_AFTER, STATES, statesOf } from '../state.ts';
import { survey } from '../survey.ts';
import { writeJson } from './json.ts';
import { writeTable } from './table.ts';
import type { View } from './view.ts';

const indexSet: Reader<IndexSet> = (text) => {
  const value = parseIndexSet(text);
  return value === undefined ? { is: 'not a set of indices', example: '0-99 or 3,17-19,40-60:2' } : { value };
};

const OPTIONS = group('Status:', {
  array: {
    flags: '--array <set>',
    kind: 'value',
    help: 'the indices that there should be, as the scheduler has them: the others of it are missing',
    read: indexSet,
  },
  'stale-after': {
    flags: '--stale-after <duration>',
    kind: 'value',
    help: 'without a sign of life for so long, an attempt was probably killed; a running one gives one each hour',
    read: durationMs(1000),
    default: STALE_AFTER,
  },
  all: { flags: '--all', kind: 'flag', help: 'every index, however many lines that takes' },
  details: {
    flags: '--details',
    kind: 'flag',
    help: 'host and results of more than 100 indices, too: one request for each',
  },
  json: { flags: '--json', kind: 'flag', help: 'JSON, one index a line' },
});

export const statusCommand: ArrayCommand = {
  help: {
    usage: '<url> [options]',
    about:
      'Says of each index of an array what became of it: failed, stale (no sign of life, probably killed), ' +
      'missing, preempted, running, done.',
    statuses: `    0  all are done
    1  not all are done`,
    examples: [
      'capture status s3://lab/run7',
      'capture status s3://lab/run7 --array 0-9999',
      'capture status /shared/store/12 --task-name lmp --json',
    ],
  },
  options: Object.values(OPTIONS),
  read: (line) => readStatus(line),
};

/** What was asked for. */
interface Asked {
  readonly set: IndexSet | undefined;
  readonly staleAfterMs: number;
  readonly all: boolean;
  readonly details: boolean;
  readonly json: boolean;
}

function readStatus(line: Line): CarryOut {
  const { values } = line;
  const given = readPlace(line);
  refuseOperands(line);
  const asked: Asked = {
    set: values.of(OPTIONS.array),
    staleAfterMs: values.of(OPTIONS['stale-after']),
    all: values.has(OPTIONS.all),
    details: values.has(OPTIONS.details),
    json: values.has(OPTIONS.json),
  };
  return async (tools) => {
    // Refused above.
    if (given === undefined) return EXIT.usage;
    const place = await openPlace(given, tools.signal);
    try {
      return await status(place, asked, tools);
    } finally {
      await place.store.close();
    }
  };
}

async function status(place: Place, asked: Asked, tools: Tools): Promise<ExitStatus> {
  const { log, signal } = tools;
  const found = await survey(place, clockMs(), signal);
  if (found.rows.length === 0) throw nothingThere(place.store, place.taskName);
  const states = (): Iterable<IndexState> => statesOf(found, asked.staleAfterMs, asked.set);
  const counts = countsOf(states());
  const others = asked.set === undefined ? [] : othersThan(found, asked.set);
  if (others.length > 0) {
    const shown = others.slice(0, 5).join(', ');
    const more = others.length > 5 ? ` and ${others.length - 5} more` : '';
    log.warn(`not of --array, and not counted: ${shown}${more}`);
  }
  const view: View = { place, states, counts, nowMs: found.nowMs, ...asked };
  await (asked.json ? writeJson(view, tools) : writeTable(view, tools));
  return STATES.every((state) => state === 'done' || counts[state] === 0) ? EXIT.ok : NOT_ALL;
}

const NOT_ALL = 1;
