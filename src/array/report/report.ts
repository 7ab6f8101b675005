// `capture report <url>`: one page that shows the whole array without a network. The listing says which indices there
// are, their records how each attempt went; the page itself is a file of the program of its own.
import path from 'node:path';
import { filePath } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import { EXIT } from '../../model/exit-status.ts';
import type { IndexSet } from '../../model/index-set.ts';
import { formatBytes } from '../../model/units.ts';
import { readAhead } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { ARRAY_OPTION, STALE_OPTION } from '../array-option.ts';
import { numberText } from '../columns.ts';
import { type ArrayCommand, type CarryOut, type Line, refuseOperands, type Tools } from '../command.ts';
import { detailsOf, READS_AT_ONCE } from '../details.ts';
import { sayOthers } from '../others.ts';
import { atPlace, nothingThere, type Place, readPlace } from '../place.ts';
import { indicesDone, openProgress } from '../progress.ts';
import { type IndexState, statesOf } from '../state.ts';
import { survey } from '../survey.ts';
import type { ReportHead } from './data.ts';
import { entryOf, type Page, Texts } from './entry.ts';
import { openOutputFile, type OutputFile, type Sink } from './output-file.ts';
import { writePacked } from './packed.ts';
import { stepsFor } from './used.ts';

const OPTIONS = group('Report:', {
  array: { ...ARRAY_OPTION, help: 'those that there should be, as the scheduler has them: 0-9999' },
  output: {
    flags: '-o, --output <file>',
    kind: 'value',
    help: 'where the page is written; - is stdout',
    read: filePath,
    default: 'report.html',
  },
  'stale-after': STALE_OPTION,
});

export const reportCommand: ArrayCommand = {
  help: {
    about:
      'Writes one page for a browser that shows the whole array: the state of each index, the attempts in time, what ' +
      'checkpoints have saved and deaths have cost, and what each index has used. It needs no network.',
    statuses: '    0  the page is written',
    examples: [
      'capture report s3://lab/run7 --array 0-9999 -o report.html',
      'capture report /shared/store/12 --task-name lmp -o - --log-level warn',
    ],
  },
  options: Object.values(OPTIONS),
  read: (line) => carryOutOf(line),
};

interface Asked {
  readonly set: IndexSet | undefined;
  readonly staleAfterMs: number;
  /** Undefined: stdout. */
  readonly file: string | undefined;
}

function carryOutOf(line: Line): CarryOut {
  const { values, cwd } = line;
  const given = readPlace(line);
  refuseOperands(line);
  const output = values.of(OPTIONS.output);
  const asked: Asked = {
    set: values.of(OPTIONS.array),
    staleAfterMs: values.of(OPTIONS['stale-after']),
    file: output === '-' ? undefined : path.resolve(cwd, output),
  };
  return atPlace(given, async (place, tools) => {
    await report(place, asked, tools);
    return EXIT.ok;
  });
}

async function report(place: Place, asked: Asked, tools: Tools): Promise<void> {
  if (asked.file === undefined) {
    await writeReport(place, asked, { ...tools, sink: () => tools.out });
    return;
  }
  let file: OutputFile | undefined;
  try {
    const sink = (): Sink => (file = openOutputFile(asked.file ?? ''));
    const size = await writeReport(place, asked, { ...tools, sink });
    file?.keep();
    const count = `${numberText(size)} ${size === 1 ? 'index' : 'indices'}`;
    tools.log.info(`wrote ${asked.file}: ${count}, ${formatBytes(file?.bytes ?? 0)}`);
  } finally {
    file?.close();
  }
}

export interface ReportTools extends Pick<Tools, 'log' | 'signal'> {
  /** Where the page goes; asked for once the store has answered. */
  readonly sink: () => Sink;
}

/** Writes the page of the array, and resolves to the number of its indices. Throws status 66 if nothing is stored. */
export async function writeReport(
  place: Place,
  { set, staleAfterMs }: Pick<Asked, 'set' | 'staleAfterMs'>,
  { sink, log, signal }: ReportTools,
): Promise<number> {
  const found = await survey(place, clockMs(), signal);
  if (found.rows.length === 0) throw nothingThere(place.store, place.taskName);
  sayOthers(found, set, { log });
  const states = [...statesOf(found, staleAfterMs, set)];
  const attempts = states.reduce((sum, { row }) => sum + (row?.attempts ?? 0), 0);
  const page: Page = { texts: new Texts(), nowMs: found.nowMs, mostSteps: stepsFor(attempts) };
  await writePage(place, { states, page }, { log, signal, sink: sink() });
  return states.length;
}

/** Entry by entry: what is in memory of an index is what is being read. */
async function writePage(
  place: Place,
  { states, page }: { readonly states: readonly IndexState[]; readonly page: Page },
  { sink, log, signal }: Pick<Tools, 'log' | 'signal'> & { readonly sink: Sink },
): Promise<void> {
  const { pageParts, jsonInPage } = await import('./template.ts');
  const parts = pageParts(place.taskName);
  let done = 0;
  const progress = openProgress(log, (elapsedMs) => {
    const { bar, left } = indicesDone({ done, of: states.length }, elapsedMs);
    return [`${bar} read`, ...left].join(', ');
  });
  try {
    await sink.write(parts.start);
    const read = async (one: IndexState): Promise<string> => {
      const details = one.row === undefined ? undefined : await detailsOf(place, one.row, signal);
      for (const problem of details?.problems ?? [])
        log.warn(problem, { event: 'damaged', index: one.index });
      return JSON.stringify(entryOf(one, details, page));
    };
    const entries = async function* entries(): AsyncGenerator<string> {
      yield '[';
      for await (const entry of readAhead(states, READS_AT_ONCE, read)) {
        yield done === 0 ? entry : `,\n${entry}`;
        done += 1;
      }
      yield ']';
    };
    await writePacked(entries(), sink, signal);
    await sink.write(parts.end(jsonInPage(headOf(place, page))));
  } finally {
    progress.close();
  }
}

function headOf({ store, taskName }: Place, { texts, nowMs }: Page): ReportHead {
  return {
    format: 1,
    store: store.url,
    task: taskName,
    now: Math.round(nowMs / 1000),
    capture: CAPTURE_VERSION,
    texts: texts.all,
  };
}
